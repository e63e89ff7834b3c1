//! What can go wrong with any backend, in the same words; what only one can say is its own cause.

use std::io;

use super::Capability;
use crate::doorbell::DoorbellError;
use crate::irq::IrqError;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A guest that the backend cannot hold.
    #[error("{what} is {value:#x}, must be {rule}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// What it was.
        value: u64,
        /// What it may be.
        rule: String,
    },
    /// The backend cannot do this, here or anywhere.
    #[error("the {backend} backend has no {}: {reason}", capability.name())]
    Unsupported {
        /// Its name.
        backend: &'static str,
        /// What it lacks.
        capability: Capability,
        /// Why.
        reason: String,
    },
    /// A system call failed, or a call to KVM.
    #[error("cannot {operation}")]
    System {
        /// What it was to do.
        operation: &'static str,
        /// Why it did not.
        source: io::Error,
    },
    /// Guest memory could not be mapped.
    #[error("cannot map {size:#x} bytes of guest memory")]
    Memory {
        /// How much.
        size: u64,
        /// Why not.
        source: vm_memory::mmap::FromRangesError,
    },
    /// This vCPU is taken or never was.
    #[error("vcpu {index} is taken already, or there are no more than {vcpus}")]
    Vcpu {
        /// Which.
        index: u32,
        /// How many there are.
        vcpus: u32,
    },
    /// The vCPU has run already.
    #[error("the entry point and the handler of a vcpu cannot change once it has run")]
    Running,
    /// An entry point that this guest was not made for.
    #[error("a vcpu cannot begin with {entry} in a guest with {guest}")]
    Entry {
        /// How it was to begin.
        entry: &'static str,
        /// What stands against it.
        guest: &'static str,
    },
    /// The guest faulted before and cannot go on.
    #[error("the guest faulted before and cannot be entered again")]
    Faulted,
    /// A doorbell or a resampling irqfd is removed by halves: it does nothing more, but its eventfd or
    /// resamplefd may still be signalled. The same removal tried again finishes it.
    #[error("{what} is not removed yet, because the guest could not be made to let go of it")]
    Unremoved {
        /// A doorbell by its address, or an irqfd by its GSI.
        what: String,
        /// What was not done.
        source: io::Error,
    },
    /// An interrupt could not be set up or sent.
    #[error(transparent)]
    Irq(#[from] IrqError),
    /// A doorbell could not be registered or removed.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
    /// What only this backend can say.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The backend's own cause, if it is a `T`.
    pub fn of_backend<T: std::error::Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::Backend(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// The error of a call that was to do `operation`.
    pub(super) fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self + Copy {
        move |source| Self::System {
            operation,
            source: source.into(),
        }
    }

    /// The last system call's error.
    pub(super) fn last(operation: &'static str) -> Self {
        Self::System {
            operation,
            source: io::Error::last_os_error(),
        }
    }
}
