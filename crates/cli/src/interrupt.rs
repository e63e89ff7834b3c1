//! SIGINT, SIGTERM and SIGHUP: the first asks the command to end early, the second kills it. Also handles signals that
//! arrive while the terminal is in raw mode: a fault restores the terminal's settings, and SIGCONT sets raw mode again.
#![allow(unsafe_code, reason = "installing a signal handler")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcsetattr};

/// The signals that ask a program to end: from the keyboard, a service manager, or a closed terminal.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signals that a program's own faults raise.
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

/// Catches the first of each of these signals, which sets the returned flag. A second signal of the same kind has the
/// default action again, so it can still end a program that does not end by itself.
pub(super) fn catch() -> io::Result<&'static AtomicBool> {
    extern "C" fn handler(signal: libc::c_int) {
        // A signal handler may do little more than store to an atomic, which is enough here.
        SIGNAL.store(signal, Ordering::Relaxed);
        INTERRUPTED.store(true, Ordering::Release);
    }
    let mut caught = default();
    caught.sa_sigaction = handler as *const () as libc::sighandler_t;
    // With SA_RESTART, blocking calls need no loop around EINTR.
    caught.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
    for signal in SIGNALS {
        // A signal that was ignored at the program's start stays ignored, as `nohup` wants for SIGHUP.
        if action(signal, None)?.sa_sigaction != libc::SIG_IGN {
            action(signal, Some(&caught))?;
        }
    }
    Ok(&INTERRUPTED)
}

/// The settings of standard input's terminal: raw mode, and those found at the start.
static TERMINAL: OnceLock<[Termios; 2]> = OnceLock::new();

/// Keeps the settings of standard input's terminal right from here on: sets raw mode again after the shell stopped and
/// continued this program, and restores `before` if a fault ends the program.
pub(super) fn keep_terminal(raw: Termios, before: Termios) -> io::Result<()> {
    extern "C" fn continued(_: libc::c_int) {
        set_terminal(0);
    }
    extern "C" fn fault(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        set_terminal(1);
        // SAFETY: the kernel passes a siginfo that is valid during the handler.
        if unsafe { (*info).si_code } <= 0 {
            // Sent by a program, so returning would not raise it again.
            // SAFETY: no pointers, and async-signal-safe.
            unsafe { libc::_exit(128 + signal) };
        }
    }
    // A process has one terminal, so this is set once.
    let _ = TERMINAL.set([raw, before]);
    let mut on = default();
    on.sa_flags = libc::SA_RESTART;
    on.sa_sigaction = continued as *const () as libc::sighandler_t;
    action(libc::SIGCONT, Some(&on))?;
    // After the handler, the faulting instruction runs again and the default action ends the program.
    on.sa_flags = libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_ONSTACK;
    on.sa_sigaction = fault as *const () as libc::sighandler_t;
    for signal in FAULTS {
        action(signal, Some(&on))?;
    }
    Ok(())
}

/// Makes one system call and nothing else, as it runs in a signal handler.
fn set_terminal(which: usize) {
    if let Some(settings) = TERMINAL.get() {
        // The terminal may be gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &settings[which]);
    }
}

/// The default action, without flags and with no other signal blocked.
fn default() -> libc::sigaction {
    // SAFETY: sigaction is made of integers and an optional pointer, for which all zeros is a value.
    unsafe { mem::zeroed() }
}

/// Returns the action of a signal, and sets it to `new` if given. Handlers are functions of this file, which live as
/// long as the program and are async-signal-safe.
fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut old = default();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel copies `new`, if it is not null, and fills `old`, a whole sigaction on this frame.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to this thread, which handles it before the call returns.
fn send(signal: libc::c_int) {
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
}

/// The number of the signal that ended the command early. Defaults to SIGINT.
pub(super) fn signal() -> u8 {
    u8::try_from(SIGNAL.load(Ordering::Relaxed)).unwrap_or_default()
}

/// Raises the signal that ended the command early once more. Its action is the default one again (SA_RESETHAND), so it
/// kills the process.
pub(super) fn raise() {
    send(SIGNAL.load(Ordering::Relaxed));
}

/// Stops the process as Ctrl-Z does. Returns after it was continued.
pub(super) fn stop() {
    send(libc::SIGTSTP);
}
