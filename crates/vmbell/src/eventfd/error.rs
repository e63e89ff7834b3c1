//! Why a descriptor is no eventfd, and the errno that the kernel gives for it.

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
        source: std::io::Error,
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
