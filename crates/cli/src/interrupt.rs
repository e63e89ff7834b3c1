//! SIGINT, SIGTERM and SIGHUP: the first one asks the command to end early, the second one kills it.
#![allow(unsafe_code, reason = "installing a signal handler")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The signals that ask a program to end: of the keyboard, of a service manager, of a closed terminal.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Set by the first of the signals.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The number of that signal.
static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGINT);

/// Catches the next of each of the signals and returns the flag that they set. A second one of the same kind
/// finds the default action again, so that a program that does not end can still be ended.
pub(super) fn catch() -> io::Result<&'static AtomicBool> {
    extern "C" fn handler(signal: libc::c_int) {
        // A signal handler may do little more than store to an atomic, and that suffices here.
        SIGNAL.store(signal, Ordering::Relaxed);
        INTERRUPTED.store(true, Ordering::Release);
    }
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // With SA_RESTART, no blocking call of the program needs a loop around EINTR.
    action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    for signal in SIGNALS {
        if is_ignored(signal)? {
            continue;
        }
        // SAFETY: `action` is a whole sigaction on this frame, which the kernel copies; its handler is
        // a function that lives as long as the program and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(&INTERRUPTED)
}

/// Whether the program was started with the signal ignored, as `nohup` does with SIGHUP.
fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: nothing is installed; `action` is a whole sigaction on this frame, which the kernel fills.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } {
        0 => Ok(action.sa_sigaction == libc::SIG_IGN),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number of the signal that ended the command early; SIGINT if none has.
pub(super) fn signal() -> u8 {
    u8::try_from(SIGNAL.load(Ordering::Relaxed)).unwrap_or_default()
}

/// Sends the signal that ended the command early once more, which kills the process.
pub(super) fn raise() {
    // SAFETY: no pointers. The signal's action is the default one again (SA_RESETHAND).
    unsafe { libc::raise(SIGNAL.load(Ordering::Relaxed)) };
}

/// Stops the process until it is continued, as Ctrl-Z does. It has stopped and is continued when this returns.
pub(super) fn stop() {
    // SAFETY: no pointers. The signal is sent to this thread, which handles it before it returns.
    unsafe { libc::raise(libc::SIGTSTP) };
}
