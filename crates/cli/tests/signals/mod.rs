//! Signals of the commands that tests start.
#![allow(unsafe_code, reason = "pre_exec")]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives a command that is to be started the default action of SIGHUP. The command leaves a signal alone that it finds
/// ignored, as tests under nohup(1) do.
pub fn hear_sighup(command: &mut Command) -> &mut Command {
    let default = || {
        // SAFETY: no pointers; signal(2) may be called between fork and exec.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(default) }
}
