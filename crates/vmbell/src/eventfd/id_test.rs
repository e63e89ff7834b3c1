use std::{fs::File, os::fd::AsRawFd};

use vmm_sys_util::eventfd::EventFd;

use super::*;

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
