//! The core with the double, on any machine.

mod failures;
mod lines;
mod memory;
mod messages;
mod platform;
mod requests;
mod teardown;

use std::sync::Arc;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::placed::{Handover, Placed};

use crate::passthrough::double::{Edu, Space};
use crate::passthrough::guest::{Guest, place, wire};

/// A double in a guest.
pub struct Doubled {
    // Dropped first: the guest outlives its device.
    pub placed: Placed,
    pub guest: Guest,
    pub edu: Arc<Edu>,
    pub space: Arc<Space>,
}

impl Doubled {
    /// Puts a double into a guest, with this handover of its first interrupt, and its registers mapped or not.
    pub fn new<H: Hypervisor>(h: &H, handover: Handover, mapped: bool) -> Self {
        let (edu, space) = (Edu::pci(), Space::new());
        edu.attach(&space);
        let device = edu.open();
        let places = [place(h, mapped)];
        let guest = Guest::new(h, &device, &places);
        let dma = Arc::clone(&space) as Arc<dyn DmaSpace>;
        let placed = guest.put(&device, &dma, &places, &[wire(handover)]);
        Self {
            placed: placed.unwrap(),
            guest,
            edu,
            space,
        }
    }

    pub fn device(&self) -> &Arc<Device> {
        self.placed.device()
    }
}
