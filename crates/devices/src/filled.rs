//! What tests of full eventfds share.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use vmm_sys_util::eventfd::EventFd;

/// The largest count that a write makes.
pub const FULL: u64 = u64::MAX - 1;

/// Clears O_NONBLOCK, as another process that has the eventfd may at any moment.
pub fn make_blocking(event: &EventFd) {
    // SAFETY: no pointers; `event` is open.
    let result = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, 0) };
    assert_eq!(result, 0);
}
