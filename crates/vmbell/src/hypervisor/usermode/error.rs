//! What can go wrong in the engine.

use std::io;

use crate::doorbell::{DoorbellError, RegisterError};
use crate::irq::IrqError;

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsermodeError {
    /// A guest that the engine cannot hold.
    #[error("{what} is {value:#x}, must be {rule}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// What it was.
        value: u64,
        /// What it may be.
        rule: String,
    },
    /// Patched jumps are written while no other vCPU may run through them.
    #[error("jmp patching needs a guest with one vCPU, this one has {vcpus}; use int3 patching")]
    JmpNeedsOneVcpu {
        /// How many it has.
        vcpus: u32,
    },
    /// The guest was to be what only real virtualization makes.
    #[error(
        "the usermode engine has no {what}; the kvm backend has (--backend kvm, or `vmbell lab`)"
    )]
    Unsupported {
        /// What it was to have.
        what: &'static str,
    },
    /// The host's CPU is another.
    #[error("the usermode engine runs on x86-64 Linux only")]
    Architecture,
    /// A system call failed.
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
    /// A seccomp program could not be built.
    #[error("cannot build the seccomp program for {thread}")]
    Filter {
        /// For which thread.
        thread: &'static str,
        /// Why not.
        source: seccompiler::BackendError,
    },
    /// A seccomp program is longer than the control page has room for.
    #[error("the seccomp program for {thread} has {len} instructions, at most {limit} fit")]
    FilterTooLong {
        /// For which thread.
        thread: &'static str,
        /// How long it is.
        len: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The sandbox ended before it was ready.
    #[error("the sandbox did not start: {ending}")]
    Start {
        /// How it ended, and what that means.
        ending: String,
    },
    /// The sandbox was not ready in time.
    #[error(
        "the sandbox did not start within {} s and was killed; was it stopped (SIGSTOP, a freezer)?",
        super::sandbox::START_PATIENCE.as_secs()
    )]
    StartTimeout,
    /// The sandbox ended while the guest ran.
    #[error("the sandbox ended: {ending}")]
    Ended {
        /// How it ended, and what that means.
        ending: String,
    },
    /// The sandbox handed over what the stub never does; it has been killed.
    #[error("the sandbox handed over nonsense ({what} {value:#x}) and was killed")]
    Nonsense {
        /// Which field.
        what: &'static str,
        /// What it held.
        value: u64,
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
    #[error("the entry point of a vcpu cannot change once it has run")]
    Running,
    /// The guest faulted before and cannot go on.
    #[error("the guest faulted before and cannot be entered again")]
    Faulted,
    /// The sandbox may not have another descriptor.
    #[error(
        "no descriptor is left in the sandbox for {purpose}: the limit is {limit}; raise it (ulimit -n, or \
         RLIMIT_NOFILE's hard limit)"
    )]
    FdLimit {
        /// What it was to be for: an address, or the resamplefd of a GSI.
        purpose: String,
        /// RLIMIT_NOFILE of the sandbox.
        limit: u64,
    },
    /// A doorbell or a resampling irqfd is removed by halves: it does nothing more, but its eventfd or
    /// resamplefd may still be signalled. The same removal tried again finishes it.
    #[error("{what} is not removed yet, because the sandbox could not be made to let go of it")]
    Unremoved {
        /// A doorbell by its address, or an irqfd by its GSI.
        what: String,
        /// What the sandbox did not do.
        source: io::Error,
    },
    /// The guest has no interrupt controllers.
    #[error("the guest was made without interrupt controllers")]
    NoIrqchip,
    /// Interrupt handlers begin where guest code can be.
    #[error(
        "the interrupt handler's address {address:#x} is not below {:#x}",
        stub::layout::GUEST_END
    )]
    Handler {
        /// Where it was to be.
        address: u64,
    },
    /// An interrupt could not be set up or sent.
    #[error(transparent)]
    Irq(#[from] IrqError),
    /// A doorbell could not be registered or removed.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
}

impl UsermodeError {
    /// The last system call's error.
    pub(super) fn last(operation: &'static str) -> Self {
        Self::System {
            operation,
            source: io::Error::last_os_error(),
        }
    }
}

impl From<RegisterError<Self>> for UsermodeError {
    fn from(error: RegisterError<Self>) -> Self {
        match error {
            RegisterError::Doorbell(error) => Self::Doorbell(error),
            RegisterError::Signal(error) => error,
        }
    }
}
