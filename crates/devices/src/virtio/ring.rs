//! The device side of a ring in either format, as the driver has chosen (virtio 1.3, 2.7 and 2.8), on the thread that
//! serves the queue.

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmbell::virtqueue::{
    Chain, DeviceQueue, Head, PackedDevice, PackedLayout, QueueError, SplitDevice, SplitLayout,
    UsedError,
};

use super::control::QueueRegisters;
use super::{Refusal, features};

/// A ring in guest memory.
pub(super) enum Ring {
    Split(SplitDevice<Arc<GuestMemoryMmap>>),
    Packed(PackedDevice<Arc<GuestMemoryMmap>>),
}

/// Calls a method of either.
macro_rules! either {
    ($ring:expr, $device:ident => $call:expr) => {
        match $ring {
            Ring::Split($device) => $call,
            Ring::Packed($device) => $call,
        }
    };
}

impl Ring {
    /// The ring that the registers of a queue describe, with accepted features.
    ///
    /// # Errors
    ///
    /// If it has too many descriptors, or is not all in guest memory.
    pub(super) fn new(
        memory: &Arc<GuestMemoryMmap>,
        index: u16,
        registers: &QueueRegisters,
        features: u64,
    ) -> Result<Self, Refusal> {
        let size = registers.checked_size(index)?;
        let QueueRegisters {
            descriptors,
            driver,
            device,
            ..
        } = *registers;
        let of_ring = features::of_ring(features);
        let ring = if features & features::RING_PACKED == 0 {
            let layout = SplitLayout {
                size,
                descriptors,
                avail: driver,
                used: device,
            };
            SplitDevice::new(memory, &layout, of_ring).map(Self::Split)
        } else {
            let layout = PackedLayout {
                size,
                descriptors,
                driver_event: driver,
                device_event: device,
            };
            PackedDevice::new(memory, &layout, of_ring).map(Self::Packed)
        };
        ring.map_err(|source| Refusal::Setup {
            queue: index,
            source,
        })
    }
}

impl DeviceQueue for Ring {
    fn size(&self) -> u16 {
        either!(self, device => device.size())
    }

    #[inline]
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        either!(self, device => device.pop(chain))
    }

    #[inline]
    fn next_avail(&self) -> u16 {
        either!(self, device => device.next_avail())
    }

    #[inline]
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError> {
        either!(self, device => device.add_used(head, len))
    }

    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError> {
        either!(self, device => device.add_used_batch(chains))
    }

    #[inline]
    fn needs_notification(&mut self) -> bool {
        either!(self, device => device.needs_notification())
    }

    #[inline]
    fn enable_notification(&mut self) -> bool {
        either!(self, device => device.enable_notification())
    }

    #[inline]
    fn disable_notification(&mut self) {
        either!(self, device => device.disable_notification());
    }
}
