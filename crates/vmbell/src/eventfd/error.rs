//! Why a descriptor is no eventfd, and the errno that the kernel gives for it.

/// What is wrong with a descriptor.
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
    /// The kernel does not say which eventfd it is.
    #[error(
        "the kernel does not identify eventfd {fd}: /proc/self/fdinfo has no eventfd-id (Linux 5.2)"
    )]
    NoEventId {
        /// The descriptor.
        fd: i32,
    },
    /// Nothing can be learnt about file descriptors.
    #[error("/proc/self/fdinfo is missing, so eventfds cannot be told apart: mount proc on /proc")]
    NoProc,
    /// `/proc` did not answer.
    #[error("cannot read /proc/self/fdinfo/{fd}")]
    Proc {
        /// The descriptor.
        fd: i32,
        /// What the read said.
        source: std::io::Error,
    },
}

impl EventFdError {
    /// What an ioctl returns for it.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::BadFd { .. } => libc::EBADF,
            Self::NotEventFd { .. } => libc::EINVAL,
            Self::NoEventId { .. } | Self::NoProc => libc::EOPNOTSUPP,
            Self::Proc { .. } => libc::EIO,
        }
    }
}
