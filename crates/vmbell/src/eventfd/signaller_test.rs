use super::*;
use crate::eventfd::{EFD_NONBLOCK, drain};

/// The largest count that a write makes.
const FULL: u64 = u64::MAX - 1;

#[test]
fn each_signal_counts_one() {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    for _ in 0..1000 {
        Signaller::of_process().unwrap().signal(&event);
    }
    assert_eq!(event.read().unwrap(), 1000);
}

#[test]
fn full_eventfd_that_blocks_holds_nobody() {
    let event = EventFd::new(0).unwrap();
    event.write(FULL).unwrap();
    for _ in 0..3 {
        Signaller::of_process().unwrap().signal(&event);
    }
    assert_eq!(event.read().unwrap(), u64::MAX);
    Signaller::of_process().unwrap().signal(&event);
    assert_eq!(event.read().unwrap(), 1);
}

#[test]
fn signals_of_several_threads_are_all_counted() {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    Signaller::of_process().unwrap().signal(&event);
                }
            });
        }
    });
    assert_eq!(event.read().unwrap(), 2000);
}

#[test]
fn a_signal_wakes_a_reader() {
    let event = EventFd::new(0).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| event.read().unwrap());
        Signaller::of_process().unwrap().signal(&event);
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn draining_takes_the_count_and_never_waits() {
    let event = EventFd::new(0).unwrap();
    assert!(!drain(&event));
    event.write(7).unwrap();
    assert!(drain(&event));
    assert!(!drain(&event));
}
