//! The virtio devices of the board: each has registers at a fixed address and one line.

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmbell::bus::BusRange;
use vmbell_devices::ChrTestdev;
use vmbell_devices::virtio::VirtioDevice;
use vmbell_devices::virtio::mmio::register;

use super::Virt;
use super::tree::{VIRTIO_MAX, virtio};
use crate::board_devices::MmioPlace;
use crate::error::BoardError;
use crate::error::MachineError;
use crate::off::Off;

impl Virt {
    /// Adds a virtio device with registers in memory and an interrupt line. The device tree describes it to the guest.
    ///
    /// # Errors
    /// The board has no place for the device, or the process has no descriptors or threads for it.
    pub fn add_virtio_mmio(&self, device: VirtioDevice) -> Result<(), BoardError> {
        self.at_next(device.name(), |place| place.plug(device))
    }

    /// Adds a device with which the guest stops the machine and sets the exit code.
    ///
    /// # Errors
    /// The board has no place for it.
    pub fn add_chr_testdev(&self) -> Result<(), BoardError> {
        let switch = Arc::clone(&self.switch);
        let device = ChrTestdev::new(self.memory(), move |code| switch.turn(Off::Done(code)));
        self.at_next("chr-testdev", |place| {
            let range = BusRange::new(place.location.address, register::LEN)?;
            Ok(place.machine.mmio.insert(range, Arc::new(device))?)
        })
    }

    /// The guest's RAM, for a worker that serves a device.
    pub fn memory(&self) -> &GuestMemoryMmap {
        self.machine.vm().memory()
    }

    fn at_next(
        &self,
        device: &'static str,
        plug: impl FnOnce(MmioPlace<'_>) -> Result<(), MachineError>,
    ) -> Result<(), BoardError> {
        let mut devices = self.devices.lock();
        if *devices >= VIRTIO_MAX {
            let most = VIRTIO_MAX;
            return Err(BoardError::TooManyDevices { device, most });
        }
        plug(MmioPlace {
            machine: &self.machine,
            switch: &self.switch,
            location: virtio(*devices),
        })?;
        *devices += 1;
        Ok(())
    }
}
