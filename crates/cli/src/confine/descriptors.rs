//! Descriptors that the guest's threads do not need.
#![allow(unsafe_code, reason = "descriptors by their numbers")]

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;

/// Where the kernel lists the open descriptors.
const OPEN: &str = "/proc/self/fd";

/// The descriptors that the process was started with, except the standard streams. They stay open during set-up,
/// because a path in the arguments can name one (`/dev/fd/N`).
pub(super) struct InheritedDescriptors(pub(super) Vec<RawFd>);

impl InheritedDescriptors {
    /// Lists the descriptors. Call this before the process opens anything that it keeps.
    pub(super) fn find() -> io::Result<Self> {
        let mut open = Vec::new();
        for entry in fs::read_dir(OPEN)? {
            let name = entry?.file_name();
            open.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
        // The listing includes the folder's own descriptor, which is closed by now.
        // SAFETY: no pointers; the call changes nothing.
        let is_open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
        open.retain(|fd| *fd > libc::STDERR_FILENO && is_open(fd));
        Ok(Self(open))
    }

    /// Closes the descriptors. Call this once.
    pub(super) fn close(&self) {
        for fd in &self.0 {
            // SAFETY: no pointers. The process found the descriptor open at its start, and nothing of this program uses
            // or owns it.
            unsafe { libc::close(*fd) };
        }
    }
}

/// Replaces standard input by `/dev/null`, for a guest without a console.
pub(crate) fn close_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
}
