//! The errors that only the usermode engine has.

use vmbell_hypervisor::Error;

/// Why the usermode engine could not do what it was asked: the cause inside an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsermodeError {
    /// The guest has several vCPUs and asks for [`PatchMode::Jmp`](vmbell_hypervisor::PatchMode::Jmp). A jump is
    /// written in several bytes, which no other vCPU may execute meanwhile.
    #[error("jmp patching needs a guest with one vCPU, this one has {vcpus}; use int3 patching")]
    JmpNeedsOneVcpu {
        /// How many vCPUs the guest has.
        vcpus: u32,
    },
    /// The host is not x86-64 Linux.
    #[error("the usermode engine runs on x86-64 Linux only")]
    Architecture,
    /// The memory of the caller's ([`VmConfig::memory`](vmbell_hypervisor::VmConfig::memory)) cannot be mapped by the
    /// sandbox process as well.
    #[error(
        "the memory for the guest must be a shared mapping of a file, such as a memfd, that the sandbox can map \
         too; this memory {what}"
    )]
    MemoryNotShared {
        /// What the memory is instead.
        what: &'static str,
    },
    /// A seccomp program could not be built.
    #[error("cannot build the seccomp program for {thread}")]
    Filter {
        /// The thread that the program is for.
        thread: &'static str,
        /// The error of seccompiler.
        source: seccompiler::BackendError,
    },
    /// A seccomp program is longer than the control page has room for.
    #[error("the seccomp program for {thread} has {len} instructions, at most {limit} fit")]
    FilterTooLong {
        /// The thread that the program is for.
        thread: &'static str,
        /// Its length in instructions.
        len: usize,
        /// The greatest length in instructions.
        limit: usize,
    },
    /// The sandbox ended before it was ready.
    #[error("the sandbox did not start: {ending}")]
    Start {
        /// How the process ended, and what that means.
        ending: String,
    },
    /// The sandbox made no progress before it was ready, and has been killed.
    #[error("the sandbox did not start and was killed")]
    StartTimeout {
        /// What it did instead.
        source: std::io::Error,
    },
    /// The sandbox ended while the guest ran.
    #[error("the sandbox ended: {ending}")]
    Ended {
        /// How the process ended, and what that means.
        ending: String,
    },
    /// The sandbox handed over a value that the stub never writes, and has been killed.
    #[error("the sandbox handed over nonsense ({what} {value:#x}) and was killed")]
    Nonsense {
        /// The field of the exit record.
        what: &'static str,
        /// The value in that field.
        value: u64,
    },
    /// The sandbox has as many descriptors as its limit allows.
    #[error(
        "no descriptor is left in the sandbox for {purpose}: the limit is {limit}; raise it (ulimit -n, or \
         RLIMIT_NOFILE's hard limit)"
    )]
    FdLimit {
        /// What the descriptor was for: the address of a doorbell, the resamplefd of a GSI, or the sleep of a
        /// halted vCPU.
        purpose: String,
        /// The greatest number of descriptors in the sandbox (RLIMIT_NOFILE, 2^20 at most).
        limit: u64,
    },
    /// The address of an interrupt handler is 0, or at or above the end of guest addresses.
    #[error(
        "the interrupt handler's address {address:#x} is not below {:#x}",
        stub::layout::GUEST_END
    )]
    Handler {
        /// The address that was asked for.
        address: u64,
    },
}

impl From<UsermodeError> for Error {
    fn from(error: UsermodeError) -> Self {
        Self::Backend(Box::new(error))
    }
}
