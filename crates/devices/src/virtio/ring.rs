//! The device side of a ring in the format that the driver has chosen (virtio 1.3, 2.7 and 2.8), on the thread that
//! serves the queue, and the position that the driver announces with its notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vm_memory::GuestMemoryMmap;
use vmbell::sync::Mutex;
use vmbell_hypervisor::Doorbell;
use vmbell_virtqueue::{
    Chain, DeviceControl, DeviceQueue, DeviceState, Features, Head, PackedDevice, PackedLayout,
    QueueError, RestoreError, SplitDevice, SplitLayout, UsedError,
};

use super::driver::Refusal;

// Feature bits (virtio 1.3, 6).
pub(super) const INDIRECT_DESC: u64 = 1 << 28;
pub(super) const EVENT_IDX: u64 = 1 << 29;
pub(super) const VERSION_1: u64 = Features::VERSION_1;
pub(super) const RING_PACKED: u64 = 1 << 34;
pub(super) const IN_ORDER: u64 = 1 << 35;
pub(super) const NOTIFICATION_DATA: u64 = 1 << 38;

/// The features that the rings of [`virtqueue`](vmbell_virtqueue) support, except for the packed format.
pub(super) const OF_RINGS: u64 = INDIRECT_DESC | EVENT_IDX | VERSION_1 | IN_ORDER;

/// The maximum number of descriptors of a queue.
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
    /// If the size is more than a device allows.
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

/// Calls a method of the ring in either format.
macro_rules! either {
    ($ring:expr, $device:ident => $call:expr) => {
        match $ring {
            Ring::Split($device) => $call,
            Ring::Packed($device) => $call,
        }
    };
}

impl Ring {
    /// Creates the ring that the registers of a queue describe, with the accepted features.
    ///
    /// # Errors
    ///
    /// If the ring has too many descriptors, or is not all in guest memory.
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
        let of_ring = Features::from_bits(features);
        let ring = if features & RING_PACKED == 0 {
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
    /// Whether the `position` that the driver announced means that there are chains that the device has not taken.
    pub(super) fn is_behind(&self, position: u16) -> bool {
        let (next, size) = (self.next_avail(), self.size());
        let ahead = match self {
            Self::Split(_) => position.wrapping_sub(next),
            Self::Packed(_) => slots_ahead(next, position, size),
        };
        (1..=size).contains(&ahead)
    }
}

/// How many slots `position` of a packed ring is ahead of `next`, modulo two laps; more than `size` if the ring has no
/// such slot. Both have the wrap counter in bit 15.
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

impl DeviceControl for Ring {
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError> {
        either!(self, device => device.save(heads))
    }

    fn restore(&mut self, state: &DeviceState) -> Result<Vec<Head>, RestoreError> {
        either!(self, device => device.restore(state))
    }
}

/// What a driver says with a notification, if it has accepted `VIRTIO_F_NOTIFICATION_DATA`: how far it has made buffers
/// available (virtio 1.3, 2.9 and 4.1.5.2). A vCPU's thread registers the doorbell that stores the value, and the
/// thread that serves the queue reads the value.
///
/// Only the last value is stored, and vCPUs may write values in a different order than they made buffers available. So
/// if the device has already reached the position, it must still look at the ring before it sleeps, or it would lose a
/// notification. If the position is ahead of the device, there are buffers, and a device that finds none looks again.
#[derive(Debug, Default)]
pub(super) struct LastNotification {
    doorbell: Mutex<Option<Doorbell>>,
    /// Whether there is a doorbell, so that a service of a queue without one does not take the lock.
    is_stored: AtomicBool,
}

impl LastNotification {
    /// Uses the value of this doorbell from now on, and returns the previous doorbell.
    pub(super) fn replace(&self, doorbell: Option<Doorbell>) -> Option<Doorbell> {
        let mut now = self.doorbell.lock();
        self.is_stored.store(doorbell.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut now, doorbell)
    }

    /// How far the driver has said that buffers are available, in the format of
    /// [`DeviceQueue::next_avail`]. `None` if the driver says nothing, or
    /// names another queue.
    #[inline]
    pub(super) fn position(&self, queue: u16) -> Option<u16> {
        let is_stored = self.is_stored.load(Ordering::Relaxed);
        is_stored.then(|| self.stored(queue)).flatten()
    }

    fn stored(&self, queue: u16) -> Option<u16> {
        let now = self.doorbell.lock();
        position(now.as_ref()?.payload()?, queue)
    }
}

/// Extracts the position from a value. A doorbell's value is 0 before the first notification.
fn position(value: u64, queue: u16) -> Option<u16> {
    let value = u32::try_from(value).ok().filter(|value| *value != 0)?;
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([a, b]) == queue).then_some(u16::from_le_bytes([c, d]))
}

#[cfg(test)]
mod tests {
    use vmbell::doorbell::IoEventAddress;
    use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
    use vmbell_hypervisor::IoEvents;

    use super::*;
    use crate::registry_double::Registry;

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

    #[test]
    fn the_position_is_that_of_the_doorbells_last_value() {
        let registry = Registry {
            stores: true,
            ..Registry::default()
        };
        let event = Arc::new(EventFd::new(EFD_NONBLOCK).unwrap());
        let place = IoEventAddress::Mmio(0xe000_300c);
        let last = LastNotification::default();
        let doorbell = registry.register_payload(&event, place, 4).unwrap();
        assert!(last.replace(Some(doorbell)).is_none());
        assert_eq!(last.position(3), None, "before the first");
        for position in [7, 0x8001] {
            registry.store(place, &(u32::from(position) << 16 | 3).to_le_bytes());
            assert_eq!(last.position(3), Some(position));
        }
        assert_eq!(last.position(2), None, "of another queue");
        last.replace(None).unwrap().remove().unwrap();
        assert_eq!(last.position(3), None);
    }

    #[test]
    fn the_upper_half_of_a_value_is_the_position() {
        for (value, queue, expected) in [
            (0x8007_0003, 3, Some(0x8007)),
            (0x0001_0000, 0, Some(1)),
            (0xffff_ffff, 0xffff, Some(0xffff)),
            (0x0000_0003, 3, Some(0)),
            (0x0007_0003, 2, None),
            (0, 0, None),
            (0x1_0007_0003, 3, None),
        ] {
            assert_eq!(position(value, queue), expected, "{value:#x}");
        }
    }

    #[test]
    fn a_queue_without_a_doorbell_says_nothing() {
        let last = LastNotification::default();
        assert_eq!(last.position(0), None);
        assert!(last.replace(None).is_none());
    }
}
