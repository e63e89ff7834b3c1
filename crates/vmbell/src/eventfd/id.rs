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

use super::EventFdError;

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

#[cfg(test)]
#[path = "id_test.rs"]
mod tests;
