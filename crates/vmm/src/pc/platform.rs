//! Devices of a PC that no bus enumerates: platform devices of the host, and virtio devices on MMIO registers.
//! They share addresses and pins.
//!
//! Their registers are between RAM and the PCI devices, and their lines are pins of the I/O APIC that the board leaves
//! free. What the guest has to know about a platform device is in its device-tree node; the DSDT describes the virtio
//! devices.

use std::sync::Arc;

use vmbell::irq::Gsi;
use vmbell_devices::virtio::mmio::Location;
use vmbell_hypervisor::{AssignedDevices, Error, Irqs};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::host::HostDevice;
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::kernel::Vfio;
use vmbell_vfio::node::{NodeInterrupt, NodeRegion, Trigger};
use vmbell_vfio::placed::{Access, Guest, Handover, Place, Placed, Wire};

use super::assigned::{AssignedEvent, OnEvent};
use super::taken::{END_ADDRESS, FIRST_ADDRESS, FREE_PINS};
use super::{Pc, PcModel};
use crate::board_devices::MmioPlace;
use crate::error::BoardError;
use crate::error::MachineError;

const PAGE: u64 = 4096;

/// Where a platform device is in its guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformPlace {
    /// The device's registers, in the order of the device.
    pub regions: Vec<NodeRegion>,
    /// The device's interrupts, in the order of the device; a number is a pin of the I/O APIC.
    pub interrupts: Vec<NodeInterrupt>,
    /// What raises each interrupt in the guest.
    pub paths: Vec<InterruptPath>,
}

impl Pc {
    /// Gives the guest a platform device of the host, which is bound to a driver of VFIO. Without `mmap` its
    /// registers are not mapped, so that every access is an exit.
    ///
    /// # Errors
    /// The device cannot be opened, or the board has no room for it.
    pub fn assign_platform(
        &self,
        host: &HostDevice,
        mmap: bool,
        on_event: &OnEvent,
    ) -> Result<PlatformPlace, BoardError> {
        self.assigned.claim(&host.name, || {
            let backend: Arc<dyn AssignedDevices> = self.machine.vm().clone();
            let vfio = Vfio::open(&host.path)?;
            let device = vfio.device(&host.path, Some(&backend))?;
            self.place(Arc::new(device), vfio.dma_space(), mmap, on_event)
        })
    }

    /// Gives the guest an open platform device, whose DMA goes through `space`.
    ///
    /// # Errors
    /// The board has no room for it, or its interrupts or memory cannot be wired.
    pub fn place(
        &self,
        device: Arc<Device>,
        space: Arc<dyn DmaSpace>,
        mmap: bool,
        on_event: &OnEvent,
    ) -> Result<PlatformPlace, BoardError> {
        let mut taken = self.platform.lock();
        let mut place = PlatformPlace::default();
        let access = if mmap {
            Access::Mapped
        } else {
            Access::Emulated
        };
        let mut places = Vec::new();
        let mut next = FIRST_ADDRESS + taken.bytes;
        for region in device.regions().iter().filter(|region| region.size > 0) {
            let end = region.size.checked_next_multiple_of(PAGE);
            let end = end.and_then(|size| next.checked_add(size));
            let end = end.filter(|end| *end <= END_ADDRESS);
            let end = end.ok_or_else(|| no_room(&device, "addresses"))?;
            let (region, size) = (region.index, region.size);
            places.push(Place {
                region,
                address: next,
                access,
            });
            let address = next;
            place.regions.push(NodeRegion { address, size });
            next = end;
        }
        let mut wires = Vec::new();
        let free: &[u32] = match self.config.model {
            PcModel::Full => &FREE_PINS,
            PcModel::Micro => &[],
        };
        let mut pins = free.iter().skip(taken.pins);
        for irq in device.irqs().iter().filter(|irq| irq.count > 0) {
            let pin = *pins.next().ok_or_else(|| no_room(&device, "pins"))?;
            let gsi = Gsi::new(pin).map_err(|error| PassthroughError::from(Error::Irq(error)))?;
            wires.push(Wire {
                index: irq.index,
                gsi,
                handover: Handover::Irqfd,
            });
            place.interrupts.push(NodeInterrupt {
                number: pin,
                trigger: Trigger::of_line(irq.automasked),
            });
        }
        let irqs: Arc<dyn Irqs> = self.machine.vm().clone();
        let report = Arc::clone(on_event);
        let guest = Guest {
            memory: self.machine.vm().memory(),
            mmio: &self.machine.mmio,
            backend: self.machine.vm().clone(),
            irqs,
            on_error: Arc::new(move |error| report(AssignedEvent::Access(error.kind))),
        };
        let placed = Placed::new(device, space, &guest, &places, &wires)?;
        place.paths = placed.paths();
        taken.bytes = next - FIRST_ADDRESS;
        taken.pins += wires.len();
        taken.devices.push(placed);
        Ok(place)
    }
}

fn no_room(device: &Device, what: &'static str) -> BoardError {
    let name = device.name().to_owned();
    BoardError::NoRoom { name, what }
}

impl Pc {
    /// Plugs a virtio device in at the next addresses and pin.
    pub(super) fn at_next(
        &self,
        device: &'static str,
        plug: impl FnOnce(MmioPlace<'_>) -> Result<(), MachineError>,
    ) -> Result<(), BoardError> {
        self.require_lines(device)?;
        let mut taken = self.platform.lock();
        let location = taken.next_virtio();
        let location = location.map_err(|what| BoardError::NoPlace { device, what })?;
        plug(MmioPlace {
            machine: &self.machine,
            switch: &self.switch,
            location,
        })?;
        taken.take_virtio(location);
        Ok(())
    }

    /// Where the virtio devices on MMIO registers are, in the order in which they were added.
    pub fn virtio_mmio(&self) -> Vec<Location> {
        let taken = self.platform.lock();
        taken.virtio().to_vec()
    }
}
