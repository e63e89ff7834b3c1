//! The system calls that the floors measure, without wrappers that do more.
#![allow(unsafe_code, reason = "bare system calls")]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::AtomicU32;

use vmm_sys_util::eventfd::EventFd;

/// `getppid(2)`: enters the kernel, reads one number and leaves. Unlike `getpid`, no libc caches it.
pub(super) fn getppid() -> i64 {
    // SAFETY: takes no argument and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// Adds 1 to the counter of `eventfd`.
pub(super) fn eventfd_write(eventfd: &EventFd) -> io::Result<()> {
    const SIZE: usize = 8;
    let one = 1_u64;
    // SAFETY: `one` is on this stack frame and 8 bytes long; the kernel only reads it, in the call.
    // `eventfd` owns the descriptor and is borrowed, so it is open.
    let written = unsafe {
        libc::write(
            eventfd.as_raw_fd(),
            ptr::from_ref(&one).cast::<libc::c_void>(),
            SIZE,
        )
    };
    if written == 8 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sleeps while `word` holds `value`. May return early, so the caller checks the word again.
pub(super) fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: `word` is borrowed for the call; the kernel reads it and keeps no pointer past the
    // return. There is no time limit (null).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes one sleeper on `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}
