//! What tests of full eventfds share.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

/// The largest count that a write makes.
pub const FULL: u64 = u64::MAX - 1;

/// Whether the count is 0.
pub fn is_empty(event: &EventFd) -> bool {
    let epoll = Epoll::new().unwrap();
    let interest = EpollEvent::new(EventSet::IN, 0);
    epoll
        .ctl(ControlOperation::Add, event.as_raw_fd(), interest)
        .unwrap();
    epoll.wait(0, &mut [EpollEvent::default()]).unwrap() == 0
}

/// Clears O_NONBLOCK, as another process that has the eventfd may at any moment.
pub fn make_blocking(event: &EventFd) {
    // SAFETY: no pointers; `event` is open.
    let result = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, 0) };
    assert_eq!(result, 0);
}
