use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Counts removals; the first `failures` of them fail.
struct Guest {
    failures: u32,
    removals: AtomicU32,
}

impl Guest {
    fn removals(&self) -> u32 {
        self.removals.load(Ordering::Relaxed)
    }
}

impl RemoveDoorbell for Guest {
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error> {
        assert_eq!(event.read().unwrap(), 7);
        event.write(7).unwrap();
        assert_eq!(address, IoEventAddress::Mmio(0x1000));
        assert_eq!(datamatch, Datamatch::U16(Some(3)));
        assert_eq!(sharing, Sharing::Group);
        if self.removals.fetch_add(1, Ordering::Relaxed) < self.failures {
            return Err(Error::Faulted);
        }
        Ok(())
    }
}

/// Returns a doorbell whose removal fails `failures` times, and its guest.
fn doorbell(failures: u32) -> (Doorbell, Arc<Guest>) {
    let guest = Arc::new(Guest {
        failures,
        removals: AtomicU32::new(0),
    });
    let event = Arc::new(EventFd::new(0).unwrap());
    event.write(7).unwrap();
    let doorbell = Doorbell::new(
        &event,
        Arc::downgrade(&guest) as Weak<dyn RemoveDoorbell>,
        IoEventAddress::Mmio(0x1000),
        Datamatch::U16(Some(3)),
        Sharing::Group,
    );
    (doorbell, guest)
}

#[test]
fn dropping_a_registration_removes_it() {
    let (doorbell, guest) = doorbell(0);
    assert_eq!(guest.removals(), 0);
    drop(doorbell);
    assert_eq!(guest.removals(), 1);
}

#[test]
fn a_registration_is_removed_once() {
    let (mut doorbell, guest) = doorbell(0);
    doorbell.remove().unwrap();
    doorbell.remove().unwrap();
    drop(doorbell);
    assert_eq!(guest.removals(), 1);
}

#[test]
fn a_removal_that_failed_is_tried_again_by_remove_and_not_by_drop() {
    let (mut doorbell, guest) = doorbell(1);
    assert!(doorbell.remove().is_err());
    doorbell.remove().unwrap();
    drop(doorbell);
    assert_eq!(guest.removals(), 2);

    let (mut doorbell, guest) = self::doorbell(2);
    assert!(doorbell.remove().is_err());
    drop(doorbell);
    assert_eq!(guest.removals(), 1);
}

#[test]
fn a_doorbell_is_removed_with_its_guest_and_does_not_keep_it() {
    let (mut doorbell, guest) = doorbell(1);
    assert_eq!(Arc::strong_count(&guest), 1);
    drop(guest);
    doorbell.remove().unwrap();
}

/// A payload that shows when it is freed.
struct Value(Arc<u64>);

impl Payload for Value {
    fn value(&self) -> Option<u64> {
        Some(*self.0)
    }
}

#[test]
fn the_value_of_a_doorbell_is_freed_with_it_unless_the_guest_can_still_store_it() {
    let held = Arc::new(5);
    for (failures, left) in [(0, 1), (1, 2)] {
        let (doorbell, _guest) = doorbell(failures);
        assert_eq!(doorbell.payload(), None);
        let doorbell = doorbell.with_payload(Box::new(Value(Arc::clone(&held))));
        assert_eq!(doorbell.payload(), Some(5));
        drop(doorbell);
        assert_eq!(Arc::strong_count(&held), left);
    }
}

/// Counts its signals.
#[derive(Debug, Default)]
struct Counter(Arc<AtomicU32>);

impl IrqTrigger for Counter {
    fn signal(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_irqfd_is_signalled_by_its_trigger_or_else_by_its_eventfd() {
    let event = Arc::new(EventFd::new(0).unwrap());
    let gsi = Gsi::new(5).unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let trigger = Counter(Arc::clone(&count));
    let direct = Irqfd::new(&event, gsi, Some(Box::new(trigger)), |_| Ok(()));
    direct.signal();
    assert_eq!(count.load(Ordering::Relaxed), 1);

    let written = Irqfd::new(&event, gsi, None, |_| Ok(()));
    written.signal();
    written.signal();
    assert_eq!(event.read().unwrap(), 2);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn an_irqfd_is_removed_once() {
    let event = Arc::new(EventFd::new(0).unwrap());
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let mut irqfd = Irqfd::new(&event, Gsi::new(5).unwrap(), None, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    irqfd.remove().unwrap();
    irqfd.remove().unwrap();
    drop(irqfd);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
