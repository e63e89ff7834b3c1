//! Reads eventfds that other threads and processes use too, without blocking, whatever the flags of the eventfd. Any
//! thread may do so.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use vmm_sys_util::eventfd::EventFd;

/// Takes the count of `event` and returns whether it was above 0.
pub fn drain(event: &EventFd) -> bool {
    let mut count = 0_u64;
    let buffer = libc::iovec {
        iov_base: (&raw mut count).cast(),
        iov_len: size_of_val(&count),
    };
    // SAFETY: one buffer, `count`, which outlives the call; the descriptor is open.
    let read = unsafe {
        libc::preadv2(
            event.as_raw_fd(),
            &raw const buffer,
            1,
            -1,
            libc::RWF_NOWAIT,
        )
    };
    read == 8
}
