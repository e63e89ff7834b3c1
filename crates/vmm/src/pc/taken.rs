//! The parts of a PC that devices have taken: the host's devices that its guest has, and the addresses and pins of the
//! devices that no bus enumerates.

use std::sync::{Arc, Weak};

use vmbell::sync::{Mutex, MutexGuard};
use vmbell_devices::virtio::mmio::{Location, register};
use vmbell_vfio::dma::DmaMap;
use vmbell_vfio::interrupt::RemovalRequest;
use vmbell_vfio::kernel::Vfio;
use vmbell_vfio::placed::Placed;

use crate::error::BoardError;
use crate::ram::MEMORY_MAX;

/// The assigned devices of a PC.
#[derive(Debug, Default)]
pub(super) struct Assigned(pub(super) Arc<Mutex<AssignedState>>);

#[derive(Debug, Default)]
pub(super) struct AssignedState {
    pub(super) vfio: Option<Vfio>,
    /// The guest's memory, as long as a device uses it.
    pub(super) dma: Weak<DmaMap>,
    pub(super) names: Vec<String>,
    pub(super) requests: Vec<RemovalRequest>,
}

impl Assigned {
    /// Gives the device to the guest, and remembers its name if that succeeds. Fails if the guest has a device of this
    /// name.
    pub(super) fn claim<R>(
        &self,
        name: &str,
        give: impl FnOnce() -> Result<R, BoardError>,
    ) -> Result<R, BoardError> {
        let mut state = self.lock();
        state.check(name)?;
        let given = give()?;
        state.names.push(name.to_owned());
        Ok(given)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, AssignedState> {
        self.0.lock()
    }

    /// Ends the threads that waited for the host to ask for devices that are gone.
    pub(super) fn end_requests(&self) {
        let is_over = |request: &mut RemovalRequest| request.is_over();
        let over: Vec<_> = self.lock().requests.extract_if(.., is_over).collect();
        // Dropped without the lock, because the threads take the lock before they end.
        drop(over);
    }
}

impl AssignedState {
    pub(super) fn check(&self, name: &str) -> Result<(), BoardError> {
        if self.names.iter().any(|other| other == name) {
            let name = name.to_owned();
            return Err(BoardError::AssignedTwice { name });
        }
        Ok(())
    }
}

/// The addresses of registers: RAM ends below, and PCI begins above.
pub(super) const FIRST_ADDRESS: u64 = MEMORY_MAX;
pub(super) const END_ADDRESS: u64 = 0xe000_0000;

/// The pins that the rest of the board does not use.
pub(super) const FREE_PINS: [u32; 9] = [5, 10, 11, 12, 14, 15, 3, 6, 7];

/// The addresses and pins that platform devices and virtio devices on MMIO registers have taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) bytes: u64,
    pub(super) pins: usize,
    virtio: Vec<Location>,
    pub(super) devices: Vec<Placed>,
}

impl Taken {
    /// Returns the next addresses and pin for a virtio device. If they are used up, the error says what is missing.
    pub(super) fn next_virtio(&self) -> Result<Location, &'static str> {
        let address = FIRST_ADDRESS + self.bytes;
        if END_ADDRESS - address < register::LEN {
            return Err("addresses");
        }
        let gsi = *FREE_PINS.get(self.pins).ok_or("pins")?;
        Ok(Location { address, gsi })
    }

    /// Takes the [next](Self::next_virtio) addresses and pin for a virtio device.
    pub(super) fn take_virtio(&mut self, location: Location) {
        self.bytes += register::LEN;
        self.pins += 1;
        self.virtio.push(location);
    }

    /// Where the virtio devices are.
    pub(super) fn virtio(&self) -> &[Location] {
        &self.virtio
    }
}
