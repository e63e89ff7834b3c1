//! SIGTERM, SIGINT and SIGHUP of `vmbell lab`: what a preparation has not finished is removed, and then the signal
//! kills the process as it would have before. A thread of its own does that, because a handler may do next to
//! nothing. A run has nothing to remove: its files have no names, and QEMU dies with its parent.
#![allow(unsafe_code, reason = "installing signal handlers")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// The signal that arrived, or 0.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
const POLL: Duration = Duration::from_millis(50);

/// Handles the signals from now on, except for those that are ignored.
pub(super) fn clean_up() -> io::Result<()> {
    for signal in SIGNALS {
        if handler(signal, None)? != libc::SIG_IGN {
            handler(signal, Some(note as *const () as libc::sighandler_t))?;
        }
    }
    thread::Builder::new().spawn(|| {
        loop {
            match ARRIVED.load(Ordering::Relaxed) {
                0 => thread::sleep(POLL),
                signal => {
                    vmbell_lab::abandon();
                    let _ = handler(signal, Some(libc::SIG_DFL));
                    // SAFETY: sends a signal to this process, whose default action ends it.
                    unsafe { libc::raise(signal) };
                }
            }
        }
    })?;
    Ok(())
}

extern "C" fn note(signal: libc::c_int) {
    ARRIVED.store(signal, Ordering::Relaxed);
}

/// Returns the handler of a signal, and sets another one if it is given.
fn handler(signal: libc::c_int, new: Option<libc::sighandler_t>) -> io::Result<libc::sighandler_t> {
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    let (mut old, mut action): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
    // With SA_RESTART, no blocking call of the program needs a loop around EINTR.
    action.sa_flags = libc::SA_RESTART;
    let mut set: *const libc::sigaction = ptr::null();
    if let Some(new) = new {
        action.sa_sigaction = new;
        set = &raw const action;
    }
    // SAFETY: `set` is null or points to `action`, which like `old` is a whole sigaction on this frame; the
    // handler only stores to an atomic and lives as long as the program.
    match unsafe { libc::sigaction(signal, set, &raw mut old) } {
        0 => Ok(old.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}
