//! What a driver says with a notification, if it has accepted `VIRTIO_F_NOTIFICATION_DATA`: how far it has made buffers
//! available (virtio 1.3, 2.9 and 4.1.5.2). A vCPU's thread registers the doorbell that stores it, and the thread that serves
//! the queue reads it.
//!
//! Only the last value is stored, and vCPUs may write theirs in another order than they made buffers available. So a position
//! that the device has reached says nothing: a device that then went to sleep without a look at the ring would lose a
//! notification. A position ahead of the device says that there are buffers, and a device that finds none looks again.

use std::sync::atomic::{AtomicBool, Ordering};

use vmbell::sync::Mutex;
use vmbell_hypervisor::Doorbell;

/// The last notification of a queue.
#[derive(Debug, Default)]
pub(super) struct LastNotification {
    doorbell: Mutex<Option<Doorbell>>,
    /// Whether there is one, so that each service of a queue without one does not take the lock.
    is_stored: AtomicBool,
}

impl LastNotification {
    /// Takes the value from this doorbell from now on, and returns the one before.
    pub(super) fn replace(&self, doorbell: Option<Doorbell>) -> Option<Doorbell> {
        let mut now = self.doorbell.lock();
        self.is_stored.store(doorbell.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut now, doorbell)
    }

    /// How far the driver has said that buffers are available, in the format of
    /// [`DeviceQueue::next_avail`](vmbell_virtqueue::DeviceQueue::next_avail). `None` if it says nothing, or names another queue.
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

/// The position in a value. 0 is what a doorbell has before the first notification.
fn position(value: u64, queue: u16) -> Option<u16> {
    let value = u32::try_from(value).ok().filter(|value| *value != 0)?;
    let [a, b, c, d] = value.to_le_bytes();
    (u16::from_le_bytes([a, b]) == queue).then_some(u16::from_le_bytes([c, d]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vmbell::doorbell::IoEventAddress;
    use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
    use vmbell_hypervisor::IoEvents;

    use super::*;
    use crate::registry_double::Registry;

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
