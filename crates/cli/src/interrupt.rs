//! SIGINT, SIGTERM and SIGHUP: the first one asks the command to end early, the second one kills it. And the signals that find a
//! terminal in raw mode: one that is fatal gives it back, and SIGCONT takes it again from the shell.
#![allow(unsafe_code, reason = "installing a signal handler")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcsetattr};

/// The signals that ask a program to end: of the keyboard, of a service manager, of a closed terminal.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signals of a program's faults.
const FAULTS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
];

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
    let mut caught = default();
    caught.sa_sigaction = handler as *const () as libc::sighandler_t;
    // With SA_RESTART, no blocking call of the program needs a loop around EINTR.
    caught.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    for signal in SIGNALS {
        // One that was ignored when the program started stays so, as `nohup` wants it for SIGHUP.
        if action(signal, None)?.sa_sigaction != libc::SIG_IGN {
            action(signal, Some(&caught))?;
        }
    }
    Ok(&INTERRUPTED)
}

/// The settings of standard input's terminal: those of the program, and those that it found.
static TERMINAL: OnceLock<[Termios; 2]> = OnceLock::new();

/// Keeps the terminal at standard input as it should be from here on: in raw mode when a shell that has stopped this program
/// continues it, and as it was `before` when a fault ends the program.
pub(super) fn keep_terminal(raw: Termios, before: Termios) -> io::Result<()> {
    extern "C" fn continued(_: libc::c_int) {
        set_terminal(0);
    }
    extern "C" fn fault(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        set_terminal(1);
        // SAFETY: the kernel passes a siginfo that is valid during the handler.
        if unsafe { (*info).si_code } <= 0 {
            // A program has sent it, so it does not come again.
            // SAFETY: no pointers, and async-signal-safe.
            unsafe { libc::_exit(128 + signal) };
        }
    }
    // There is one terminal.
    let _ = TERMINAL.set([raw, before]);
    let mut on = default();
    on.sa_flags = libc::SA_RESTART;
    on.sa_sigaction = continued as *const () as libc::sighandler_t;
    action(libc::SIGCONT, Some(&on))?;
    // The faulting instruction is executed again, and finds the default action.
    on.sa_flags = libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_ONSTACK;
    on.sa_sigaction = fault as *const () as libc::sighandler_t;
    for signal in FAULTS {
        action(signal, Some(&on))?;
    }
    Ok(())
}

/// For a signal handler: makes a system call, and nothing else.
fn set_terminal(which: usize) {
    if let Some(settings) = TERMINAL.get() {
        // The terminal may have gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &settings[which]);
    }
}

/// The default action, without flags and with no other signal blocked.
fn default() -> libc::sigaction {
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    unsafe { mem::zeroed() }
}

/// The action of a signal, which becomes `new` if there is one. A handler in it is a function of this file, which lives as long as
/// the program and is async-signal-safe.
fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut old = default();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel copies `new`, if it is not null, and fills `old`, a whole sigaction on this frame.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to this thread, which handles it before this returns.
fn send(signal: libc::c_int) {
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
}

/// The number of the signal that ended the command early; SIGINT if none has.
pub(super) fn signal() -> u8 {
    u8::try_from(SIGNAL.load(Ordering::Relaxed)).unwrap_or_default()
}

/// Sends the signal that ended the command early once more, which kills the process: its action is the default one again
/// (SA_RESETHAND).
pub(super) fn raise() {
    send(SIGNAL.load(Ordering::Relaxed));
}

/// Stops the process until it is continued, as Ctrl-Z does. It has stopped and is continued when this returns.
pub(super) fn stop() {
    send(libc::SIGTSTP);
}
