//! The packed ring: one ring of descriptors that both sides write, and the driver and device event suppression
//! structures (virtio 1.3, 2.8 and 2.8.10). This file defines the addresses of these three parts.

mod device;
mod driver;
mod ring;

use super::error::SetupError;
use crate::{descriptor, memory};

pub use device::PackedDevice;
pub use driver::{PackedDriver, PackedSide};
pub use ring::PackedRing;

/// Size of an event suppression structure in bytes.
const EVENT: u64 = 4;
/// Largest size of a queue.
const MAX: u16 = 1 << 15;

/// Size and addresses of a packed ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLayout {
    /// The number of descriptors: 1 to 32768.
    pub size: u16,
    /// Address of the descriptor ring, aligned to 16; each descriptor has 16 bytes.
    pub descriptors: u64,
    /// Address of the driver event suppression structure, aligned to 4.
    pub driver_event: u64,
    /// Address of the device event suppression structure, aligned to 4.
    pub device_event: u64,
}

impl PackedLayout {
    /// A layout of consecutive parts from `base` on.
    pub const fn contiguous(base: u64, size: u16) -> Self {
        let end = base + descriptor::BYTES as u64 * size as u64;
        Self {
            size,
            descriptors: base,
            driver_event: end,
            device_event: end + EVENT,
        }
    }

    /// The first address after the device event suppression structure.
    pub const fn end(&self) -> u64 {
        self.device_event + EVENT
    }

    pub(super) fn check(&self) -> Result<(), SetupError> {
        let size = self.size;
        if (1..=MAX).contains(&size) {
            return Ok(());
        }
        Err(SetupError::Size { size })
    }

    pub(super) fn check_overlap(&self) -> Result<(), SetupError> {
        let ring = descriptor::BYTES as u64 * u64::from(self.size);
        memory::check_apart([
            ("descriptor ring", self.descriptors, ring),
            ("driver event", self.driver_event, EVENT),
            ("device event", self.device_event, EVENT),
        ])
    }
}
