//! The identity of the eventfd behind a file descriptor.
//!
//! KVM compares the kernel object behind a descriptor, so that a `dup()`ed or passed descriptor
//! names the same registration. The kernel shows that identity as `eventfd-id` in
//! `/proc/self/fdinfo` (Linux `fs/eventfd.c`, since 5.2). It is unique among eventfds that are
//! open; each registration keeps a descriptor of its eventfd open.

use std::{
    fs, io,
    os::fd::{AsRawFd, RawFd},
    path::Path,
};

const FDINFO: &str = "/proc/self/fdinfo";

/// The identity of an eventfd, the same for all its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

impl EventId {
    /// The identity of the eventfd behind a descriptor of this process.
    pub fn of(event: &impl AsRawFd) -> Result<Self, EventFdError> {
        Self::in_directory(Path::new(FDINFO), event.as_raw_fd())
    }

    /// An identity made up by the caller, for tests and benches of registrations without eventfds.
    #[doc(hidden)]
    pub const fn from_raw(id: u64) -> Self {
        Self(id)
    }

    fn in_directory(fdinfo: &Path, fd: RawFd) -> Result<Self, EventFdError> {
        match fs::read_to_string(fdinfo.join(fd.to_string())) {
            Ok(text) => parse(&text, fd),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fdinfo.is_dir() {
                    Err(EventFdError::BadFd { fd })
                } else {
                    Err(EventFdError::NoProc)
                }
            }
            Err(source) => Err(EventFdError::Proc { fd, source }),
        }
    }
}

fn parse(fdinfo: &str, fd: RawFd) -> Result<EventId, EventFdError> {
    let field = |name: &str| {
        fdinfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    if field("eventfd-count").is_none() {
        return Err(EventFdError::NotEventFd { fd });
    }
    field("eventfd-id")
        .and_then(|id| id.trim().parse().ok())
        .map(EventId)
        .ok_or(EventFdError::NoEventId { fd })
}

/// A descriptor that cannot be identified as an eventfd.
#[derive(Debug, thiserror::Error)]
pub enum EventFdError {
    /// The file descriptor is not open.
    #[error("file descriptor {fd} is not open")]
    BadFd {
        /// The descriptor.
        fd: i32,
    },
    /// The file descriptor is something else.
    #[error("file descriptor {fd} is not an eventfd")]
    NotEventFd {
        /// The descriptor.
        fd: i32,
    },
    /// The kernel does not show the eventfd's identity; it does since Linux 5.2.
    #[error(
        "the kernel does not identify eventfd {fd}: /proc/self/fdinfo has no eventfd-id (Linux 5.2)"
    )]
    NoEventId {
        /// The descriptor.
        fd: i32,
    },
    /// `/proc/self/fdinfo` is missing, so no descriptor can be identified.
    #[error("/proc/self/fdinfo is missing, so eventfds cannot be told apart: mount proc on /proc")]
    NoProc,
    /// The descriptor's file in `/proc/self/fdinfo` cannot be read.
    #[error("cannot read /proc/self/fdinfo/{fd}")]
    Proc {
        /// The descriptor.
        fd: i32,
        /// The error of the read.
        source: io::Error,
    },
}

impl EventFdError {
    /// The errno that the kernel's ioctl returns for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::BadFd { .. } => libc::EBADF,
            Self::NotEventFd { .. } => libc::EINVAL,
            Self::NoEventId { .. } | Self::NoProc => libc::EOPNOTSUPP,
            Self::Proc { .. } => libc::EIO,
        }
    }
}

#[cfg(test)]
#[path = "id_test.rs"]
mod tests;
