//! The device side of a ring in either format, as the driver has chosen (virtio 1.3, 2.7 and 2.8), on the thread that
//! serves the queue.

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmbell_virtqueue::{
    Chain, DeviceQueue, Head, PackedDevice, PackedLayout, QueueError, SplitDevice, SplitLayout,
    UsedError,
};

use super::features;
use super::refusal::Refusal;

/// The most descriptors of a queue.
pub(super) const QUEUE_SIZE_MAX: u16 = 256;

/// The registers of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueRegisters {
    pub(super) size: u32,
    pub(super) descriptors: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
    pub(super) ready: bool,
}

impl QueueRegisters {
    /// The number of descriptors, which the driver has chosen.
    ///
    /// # Errors
    ///
    /// If it is more than a device allows.
    pub(super) fn checked_size(&self, index: u16) -> Result<u16, Refusal> {
        let size = u16::try_from(self.size).ok();
        size.filter(|size| *size <= QUEUE_SIZE_MAX)
            .ok_or(Refusal::Size {
                queue: index,
                size: self.size,
                most: QUEUE_SIZE_MAX,
            })
    }
}

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

impl Ring {
    /// Whether a driver that says that it is at `position` has made chains available that the device has not taken.
    pub(super) fn is_behind(&self, position: u16) -> bool {
        let (next, size) = (self.next_avail(), self.size());
        let ahead = match self {
            Self::Split(_) => position.wrapping_sub(next),
            Self::Packed(_) => slots_ahead(next, position, size),
        };
        (1..=size).contains(&ahead)
    }
}

/// How many slots `position` of a packed ring is ahead of `next`, modulo two laps; more than `size` if there is no such slot.
/// Both have the wrap counter in bit 15.
fn slots_ahead(next: u16, position: u16, size: u16) -> u16 {
    let slot = |at: u16| i32::from(at & 0x7fff);
    if slot(position) >= i32::from(size) {
        return u16::MAX;
    }
    let lap = if (position ^ next) >> 15 == 0 {
        0
    } else {
        size
    };
    let ahead = slot(position) + i32::from(lap) - slot(next);
    let ahead = ahead.rem_euclid(2 * i32::from(size));
    u16::try_from(ahead).unwrap_or(u16::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_between_positions_of_a_packed_ring_are_counted_over_two_laps() {
        for size in [1, 2, 3, 8, 32768_u16] {
            let at = |slots: u32| {
                let (lap, slot) = (slots / u32::from(size), slots % u32::from(size));
                u16::try_from(slot).unwrap() | if lap % 2 == 0 { 1 << 15 } else { 0 }
            };
            let laps = 2 * u32::from(size);
            let step = (laps / 16).max(1) as usize;
            for next in (0..laps).step_by(step) {
                for ahead in (0..laps).step_by(step) {
                    let found = slots_ahead(at(next), at(next + ahead), size);
                    assert_eq!(u32::from(found), ahead, "{size} descriptors, {next}");
                }
            }
        }
    }

    #[test]
    fn a_slot_that_the_ring_does_not_have_is_not_ahead() {
        assert!(slots_ahead(1 << 15, 8 | 1 << 15, 8) > 8);
        assert!(slots_ahead(3, u16::MAX, 8) > 8);
    }
}
