//! What can go wrong in the engine only.

use super::super::Error;

/// Why the engine could not do what it was asked: the cause inside an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsermodeError {
    /// Patched jumps are written while no other vCPU may run through them.
    #[error("jmp patching needs a guest with one vCPU, this one has {vcpus}; use int3 patching")]
    JmpNeedsOneVcpu {
        /// How many it has.
        vcpus: u32,
    },
    /// The host's CPU is another.
    #[error("the usermode engine runs on x86-64 Linux only")]
    Architecture,
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
    /// Interrupt handlers begin where guest code can be.
    #[error(
        "the interrupt handler's address {address:#x} is not below {:#x}",
        stub::layout::GUEST_END
    )]
    Handler {
        /// Where it was to be.
        address: u64,
    },
}

impl From<UsermodeError> for Error {
    fn from(error: UsermodeError) -> Self {
        Self::Backend(Box::new(error))
    }
}
