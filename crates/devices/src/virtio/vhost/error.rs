//! Why a worker cannot serve the queues, and what the user can do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A worker of the kernel cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VhostError {
    /// The kernel has no worker of this type, or this user may not use it.
    #[error(
        "cannot open {device}: `modprobe {module}` brings it, and root or its group may use it"
    )]
    Open {
        /// The file.
        device: &'static str,
        /// The kernel module.
        module: &'static str,
        /// The error.
        source: vhost::Error,
    },
    /// The kernel refuses what every vhost worker needs.
    #[error("the kernel's {device} refuses to {operation}")]
    Refused {
        /// The file.
        device: &'static str,
        /// What the kernel was asked to do.
        operation: &'static str,
        /// The error.
        source: vhost::Error,
    },
    /// Another guest of this host has the context ID.
    #[error("another guest has the context ID {cid}: take another one")]
    CidTaken {
        /// The ID.
        cid: u64,
    },
}

impl VhostError {
    /// Makes the error of a refused request.
    pub(super) const fn refused(
        device: &'static str,
        operation: &'static str,
    ) -> impl FnOnce(vhost::Error) -> Self {
        move |source| Self::Refused {
            device,
            operation,
            source,
        }
    }
}

/// A vhost-user back end cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VhostUserError {
    /// The back end could not map the guest's memory.
    #[error(
        "the guest's memory is not that of a file, so the back end at {} cannot map it", path.display()
    )]
    Memory {
        /// The socket.
        path: PathBuf,
    },
    /// No process listens on the socket.
    #[error("cannot connect to {}: a back end of vhost-user has to listen there", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The back end does not answer.
    #[error("the back end at {} does not {operation} within {limit:?}", path.display())]
    Unanswered {
        /// The socket.
        path: PathBuf,
        /// What the back end was asked to do.
        operation: &'static str,
        /// How long this and the previous requests may take together.
        limit: Duration,
    },
    /// The back end refuses what every device needs, or gives a wrong answer.
    #[error("the back end at {} refuses to {operation}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// What the back end was asked to do.
        operation: &'static str,
        /// The error.
        source: vhost::Error,
    },
}
