//! A pseudo terminal for a VMM's standard input: some VMMs end, or do not start, where that is no terminal.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// Both ends of a pseudo terminal.
#[derive(Debug)]
pub(super) struct Pty {
    /// The end of whoever would type. While it is open, a reader of the other end waits.
    pub(super) keyboard: OwnedFd,
    /// The terminal itself, for the VMM.
    pub(super) terminal: File,
}

/// Opens a pseudo terminal; neither end is inherited by other programs, and no process has it as its controlling terminal.
pub(super) fn open() -> io::Result<Pty> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let terminal = ioctl_tiocgptpeer(&keyboard, flags)?;
    Ok(Pty {
        keyboard,
        terminal: terminal.into(),
    })
}
