//! A pseudo terminal for a VMM's standard input: some VMMs end, or do not start, where that is no terminal.
#![allow(
    unsafe_code,
    reason = "openpty(3) has no safe form in the standard library"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Both ends of a pseudo terminal.
#[derive(Debug)]
pub(super) struct Pty {
    /// The end of whoever would type. While it is open, a reader of the other end waits.
    pub(super) keyboard: OwnedFd,
    /// The terminal itself, for the VMM.
    pub(super) terminal: File,
}

/// Opens a pseudo terminal; neither end is inherited by other programs, and it is nobody's controlling terminal.
pub(super) fn open() -> io::Result<Pty> {
    let (mut keyboard, mut terminal) = (-1, -1);
    // SAFETY: both integers live on this frame through the call, which fills them; a name, a mode and a size are not
    // given.
    let result = unsafe {
        libc::openpty(
            &raw mut keyboard,
            &raw mut terminal,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: openpty made this descriptor for us, and nobody else owns it.
    let keyboard = unsafe { OwnedFd::from_raw_fd(keyboard) };
    // SAFETY: the same holds for this one.
    let terminal = unsafe { File::from_raw_fd(terminal) };
    for fd in [keyboard.as_raw_fd(), terminal.as_raw_fd()] {
        // SAFETY: the descriptor is open, and the call takes numbers only.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Pty { keyboard, terminal })
}
