//! Shared by the tests of full eventfds.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use vmm_sys_util::eventfd::EventFd;

/// The largest count that writes can reach.
pub const FULL: u64 = u64::MAX - 1;

/// Clears O_NONBLOCK, as another process that has the eventfd may do at any moment.
pub fn make_blocking(event: &EventFd) {
    // SAFETY: no pointers; `event` is open.
    let result = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, 0) };
    assert_eq!(result, 0);
}
