//! Descriptors that the guest's threads do not need.
#![allow(unsafe_code, reason = "descriptors by their numbers")]

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;

/// Where the kernel lists the open descriptors.
const OPEN: &str = "/proc/self/fd";

/// The descriptors that the process was started with, without the standard streams. They stay open during set-up, since
/// a path in the arguments can name one (`/dev/fd/N`).
pub(super) struct InheritedDescriptors(pub(super) Vec<RawFd>);

impl InheritedDescriptors {
    /// Lists them. To be called before the process opens anything that it keeps.
    pub(super) fn find() -> io::Result<Self> {
        let mut open = Vec::new();
        for entry in fs::read_dir(OPEN)? {
            let name = entry?.file_name();
            open.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
        // The folder itself was one of them, and is closed by now.
        // SAFETY: no pointers; the call changes nothing.
        let is_open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
        open.retain(|fd| *fd > libc::STDERR_FILENO && is_open(fd));
        Ok(Self(open))
    }

    /// Closes them. To be called once.
    pub(super) fn close(&self) {
        for fd in &self.0 {
            // SAFETY: no pointers. The process found the descriptor open at its start, and nothing of this program uses
            // or owns it.
            unsafe { libc::close(*fd) };
        }
    }
}

/// Puts `/dev/null` in the place of standard input, for a guest that has no console to type into.
pub(crate) fn close_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
}
