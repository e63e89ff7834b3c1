use std::fs::File;
use std::os::fd::AsRawFd;

use vmm_sys_util::eventfd::EventFd;

use super::*;
use crate::eventfd::{EFD_NONBLOCK, drain};

#[test]
fn duplicate_is_the_same_eventfd_and_another_is_not() {
    let (one, two) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
    let same = one.try_clone().unwrap();
    assert_ne!(one.as_raw_fd(), same.as_raw_fd());
    assert_eq!(EventId::of(&one).unwrap(), EventId::of(&same).unwrap());
    assert_ne!(EventId::of(&one).unwrap(), EventId::of(&two).unwrap());
}

#[test]
fn closed_descriptor_is_ebadf() {
    for fd in [-1, i32::MIN, 1 << 29] {
        let error = EventId::of(&fd).unwrap_err();
        assert!(matches!(error, EventFdError::BadFd { .. }), "{error}");
        assert_eq!(error.errno(), libc::EBADF);
    }
}

#[test]
fn file_that_is_no_eventfd_is_einval() {
    let file = File::open("/dev/null").unwrap();
    let error = EventId::of(&file).unwrap_err();
    assert!(matches!(error, EventFdError::NotEventFd { .. }), "{error}");
    assert_eq!(error.errno(), libc::EINVAL);
}

#[test]
fn missing_proc_is_said_so() {
    let error = EventId::in_directory(Path::new("/nowhere"), 0).unwrap_err();
    assert!(error.to_string().contains("mount proc"), "{error}");
}

#[test]
fn kernel_without_identities_is_said_so() {
    let error = parse("pos:\t0\neventfd-count: 0\n", 3).unwrap_err();
    assert!(matches!(error, EventFdError::NoEventId { fd: 3 }));
}

/// The largest count that writes can reach.
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
fn looking_for_a_count_leaves_it_and_never_waits() {
    for flags in [0, EFD_NONBLOCK] {
        let event = EventFd::new(flags).unwrap();
        assert!(!has_count(&event).unwrap());
        for count in [2, u64::MAX - 3] {
            event.write(count).unwrap();
            assert!(has_count(&event).unwrap() && has_count(&event).unwrap());
        }
        assert_eq!(event.read().unwrap(), u64::MAX - 1, "full");
        assert!(!has_count(&event).unwrap());
    }
}

#[test]
fn draining_takes_the_count_and_never_waits() {
    let event = EventFd::new(0).unwrap();
    assert!(!drain(&event));
    event.write(7).unwrap();
    assert!(drain(&event));
    assert!(!drain(&event));
}

#[test]
fn each_signal_ends_one_wait() {
    let event = EventFd::new(0).unwrap();
    let signals = Signals::of(&event).unwrap();
    std::thread::scope(|scope| {
        let (heard, next) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for _ in 0..100 {
                assert!(signals.wait(None).unwrap());
                heard.send(()).unwrap();
            }
            assert!(!signals.wait(Some(Duration::ZERO)).unwrap());
        });
        for _ in 0..100 {
            event.write(1).unwrap();
            next.recv().unwrap();
        }
    });
    assert_eq!(event.read().unwrap(), 100, "a wait takes nothing");
}

#[test]
fn signals_of_a_full_eventfd_end_waits_too() {
    let event = EventFd::new(0).unwrap();
    event.write(FULL).unwrap();
    let signals = Signals::of(&event).unwrap();
    assert!(
        signals.wait(None).unwrap(),
        "the count says that it was signalled"
    );
    for _ in 0..3 {
        Signaller::of_process().unwrap().signal(&event);
        assert!(signals.wait(None).unwrap());
    }
}

#[test]
fn a_wait_with_a_limit_ends_without_a_signal() {
    let event = EventFd::new(0).unwrap();
    let signals = Signals::of(&event).unwrap();
    assert!(!signals.wait(Some(Duration::from_millis(1))).unwrap());
}
