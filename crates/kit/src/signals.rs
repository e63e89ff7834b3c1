//! Signals of the commands that tests start.
#![allow(unsafe_code, reason = "pre_exec")]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes `command` start with the default actions of SIGHUP and SIGINT. A command does not handle a signal that it
/// finds ignored, and these are ignored under nohup(1) and in the background of a shell without job control.
pub fn hear_signals(command: &mut Command) -> &mut Command {
    let default = || {
        for signal in [libc::SIGHUP, libc::SIGINT] {
            // SAFETY: no pointers; signal(2) may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(default) }
}
