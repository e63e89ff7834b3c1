//! The errors that all backends share. An error that only one backend has is the cause inside
//! [`Error::Backend`].

use std::{fmt, io};

use super::capability::Capability;
use vmbell::doorbell::DoorbellError;
use vmbell::irq::IrqError;
use vmbell_core::addresses::PAGE;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backend cannot hold a guest with this setting.
    #[error("{what} is {value}, must be {rule}")]
    Config {
        /// The name of the setting.
        what: &'static str,
        /// Its value, in words.
        value: String,
        /// The values that are allowed, in words.
        rule: String,
    },
    /// The backend does not have a capability on this host, or does not have it on any host.
    #[error("the {backend} backend has no {}: {reason}", capability.name())]
    Unsupported {
        /// The name of the backend.
        backend: &'static str,
        /// The capability that it lacks.
        capability: Capability,
        /// Why it lacks it.
        reason: String,
    },
    /// Neither backend has all the capabilities that the caller needs.
    #[error(
        "kvm does not have what is needed ({}), nor has the usermode backend",
        chain(kvm)
    )]
    NoBackend {
        /// Why KVM was not chosen.
        kvm: Box<Error>,
        /// Why the usermode backend was not chosen either.
        #[source]
        usermode: Box<Error>,
    },
    /// The backend does not run on the architecture of this build.
    #[error(
        "the {backend} backend is for {built}, but this is {}",
        std::env::consts::ARCH
    )]
    Architecture {
        /// The architectures on which the backend runs, in words.
        backend: &'static str,
        /// The architectures that it is for, in words.
        built: &'static str,
    },
    /// A system call or a KVM ioctl failed.
    #[error("cannot {operation}")]
    System {
        /// What the call should have done.
        operation: &'static str,
        /// The error of the call.
        source: io::Error,
    },
    /// Guest memory could not be mapped.
    #[error("cannot map {size:#x} bytes of guest memory")]
    Memory {
        /// The size in bytes.
        size: u64,
        /// The error of the mapping.
        source: vm_memory::mmap::FromRangesError,
    },
    /// Device memory cannot be at this guest-physical address.
    #[error("cannot map {size:#x} bytes of device memory at {address:#x}: {rule}")]
    DeviceMemory {
        /// The guest-physical address.
        address: u64,
        /// The size in bytes.
        size: u64,
        /// The rule that the mapping breaks.
        rule: DeviceMemoryRule,
    },
    /// The vCPU with this index exists already, or the guest has too few vCPUs to have this index.
    #[error("vcpu {index} is taken already, or there are no more than {vcpus}")]
    Vcpu {
        /// The index.
        index: u32,
        /// How many vCPUs the guest has.
        vcpus: u32,
    },
    /// The caller tried to set the entry point or the interrupt handler of a vCPU after its first run.
    #[error("the entry point and the handler of a vcpu cannot change once it has run")]
    Running,
    /// The guest was not created for this entry point.
    #[error("a vcpu cannot begin with {entry} in a guest with {guest}")]
    Entry {
        /// The entry point, in words.
        entry: &'static str,
        /// The property of the guest that forbids it.
        guest: &'static str,
    },
    /// A vCPU cannot be saved in the state that it is in.
    #[error("cannot save {what}")]
    Unsaved {
        /// What cannot be saved, in words.
        what: &'static str,
    },
    /// This host, or the guest to restore, differs from where the state was saved.
    #[error("cannot restore {what}: it was {saved:#x}, and is {here:#x} here")]
    Unrestored {
        /// What differs, in words.
        what: String,
        /// Its saved value.
        saved: u64,
        /// Its value here.
        here: u64,
    },
    /// The guest faulted before and cannot continue.
    #[error("the guest faulted before and cannot be entered again")]
    Faulted,
    /// A doorbell or a resampling irqfd is only half removed: guest writes and signals have no effect any more, but its
    /// eventfd or resamplefd may still be signalled. Calling the removal again completes it.
    #[error("{what} is not removed yet, because the guest could not be made to release it")]
    Unremoved {
        /// The doorbell by its address, or the irqfd by its GSI.
        what: String,
        /// Why the rest of the removal failed.
        source: io::Error,
    },
    /// An interrupt could not be set up or sent.
    #[error(transparent)]
    Irq(#[from] IrqError),
    /// A doorbell could not be registered or removed.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
    /// An error that only this backend has.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns the backend's own cause, if it is a `T`.
    pub fn of_backend<T: std::error::Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::Backend(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// Returns a function that makes the error of a call that should have done `operation`.
    pub fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self + Copy {
        move |source| Self::System {
            operation,
            source: source.into(),
        }
    }

    /// Returns the error of the last system call, which should have done `operation`.
    pub fn last(operation: &'static str) -> Self {
        Self::System {
            operation,
            source: io::Error::last_os_error(),
        }
    }
}

/// A rule that device memory breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceMemoryRule {
    /// The address, the size and the offset in the file are multiples of a page, and the size is at least one page.
    Pages,
    /// The end address fits in 64 bits.
    Wraps,
    /// The file is long enough.
    File {
        /// The length of the file in bytes.
        len: u64,
    },
    /// Nothing else is at the address.
    Overlap {
        /// Where the other memory begins.
        start: u64,
        /// Its size in bytes.
        len: u64,
    },
    /// The backend can map memory at this address.
    Place {
        /// The first address at which the backend can map memory.
        first: u64,
        /// The address at or below which device memory has to end.
        end: u64,
    },
    /// A guest has no more than this many pieces of device memory.
    Count {
        /// The maximum number of pieces.
        most: usize,
    },
}

impl fmt::Display for DeviceMemoryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages => write!(
                f,
                "address, size and offset have to be whole pages of {PAGE}"
            ),
            Self::Wraps => f.write_str("its end does not fit in 64 bits"),
            Self::File { len } => write!(f, "its file has no more than {len:#x} bytes"),
            Self::Overlap { start, len } => {
                write!(f, "there are {len:#x} bytes of other memory at {start:#x}")
            }
            Self::Place { first, end } => {
                write!(f, "it has to lie from {first:#x} to {end:#x}")
            }
            Self::Count { most } => write!(f, "a guest can have {most} such places"),
        }
    }
}

/// Returns the text of an error and its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
