//! SIGINT: the first one asks the command to end early, the second one kills it.
#![allow(unsafe_code, reason = "installing a signal handler")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first SIGINT.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Catches the next SIGINT and returns the flag that it sets. A second SIGINT finds the default action
/// again, so that a program that does not end can still be ended from the keyboard.
pub(super) fn catch() -> io::Result<&'static AtomicBool> {
    extern "C" fn handler(_signal: libc::c_int) {
        // A signal handler may do little more than store to an atomic, and that suffices here.
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // With SA_RESTART, no blocking call of the program needs a loop around EINTR.
    action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    // SAFETY: `action` is a whole sigaction on this frame, which the kernel copies; its handler is
    // a function that lives as long as the program and is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGINT, &raw const action, ptr::null_mut()) } {
        0 => Ok(&INTERRUPTED),
        _ => Err(io::Error::last_os_error()),
    }
}
