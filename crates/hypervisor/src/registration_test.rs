use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A doorbell whose removal fails `failures` times, and the count of its removals.
fn doorbell(failures: u32) -> (Doorbell, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let event = Arc::new(EventFd::new(0).unwrap());
    let doorbell = Doorbell::new(&event, move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) < failures {
            return Err(Error::Faulted);
        }
        Ok(())
    });
    (doorbell, calls)
}

#[test]
fn dropping_a_registration_removes_it() {
    let (doorbell, calls) = doorbell(0);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    drop(doorbell);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_registration_is_removed_once() {
    let (mut doorbell, calls) = doorbell(0);
    doorbell.remove().unwrap();
    doorbell.remove().unwrap();
    drop(doorbell);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_removal_that_failed_is_tried_again_by_remove_and_not_by_drop() {
    let (mut doorbell, calls) = doorbell(1);
    assert!(doorbell.remove().is_err());
    doorbell.remove().unwrap();
    drop(doorbell);
    assert_eq!(calls.load(Ordering::Relaxed), 2);

    let (mut doorbell, calls) = self::doorbell(2);
    assert!(doorbell.remove().is_err());
    drop(doorbell);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
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
