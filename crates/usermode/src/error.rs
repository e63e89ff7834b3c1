//! The errors that only the usermode backend has, and the description of how a sandbox ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use stub::layout::exit_code;
use vmbell_hypervisor::Error;

/// Why the usermode backend could not do what it was asked: the cause inside an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsermodeError {
    /// The host is not x86-64 Linux.
    #[error("the usermode engine runs on x86-64 Linux only")]
    Architecture,
    /// The sandbox process cannot also map the caller's memory
    /// ([`VmConfig::memory`](vmbell_hypervisor::VmConfig::memory)).
    #[error(
        "the memory for the guest must be a shared mapping of a file, such as a memfd, that the sandbox can map \
         too; this memory {what}"
    )]
    MemoryNotShared {
        /// Why the memory is unsuitable.
        what: &'static str,
    },
    /// A seccomp program could not be built.
    #[error("cannot build the seccomp program for {thread}")]
    Filter {
        /// The thread that the program is for.
        thread: &'static str,
        /// The error from seccompiler.
        source: seccompiler::BackendError,
    },
    /// A seccomp program does not fit in the control page.
    #[error("the seccomp program for {thread} has {len} instructions, at most {limit} fit")]
    FilterTooLong {
        /// The thread that the program is for.
        thread: &'static str,
        /// The program's length in instructions.
        len: usize,
        /// The maximum length in instructions.
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
        /// Why the wait for the sandbox failed.
        source: std::io::Error,
    },
    /// The sandbox ended while the guest ran.
    #[error("the sandbox ended: {ending}")]
    Ended {
        /// How the process ended, and what that means.
        ending: String,
    },
    /// The sandbox passed a value that the stub never writes, and has been killed.
    #[error("the sandbox passed an invalid value ({what} {value:#x}) and was killed")]
    Nonsense {
        /// The field of the exit record.
        what: &'static str,
        /// The value in that field.
        value: u64,
    },
    /// The sandbox has reached its limit of descriptors.
    #[error(
        "no descriptor is left in the sandbox for {purpose}: the limit is {limit}; raise it (ulimit -n, or \
         RLIMIT_NOFILE's hard limit)"
    )]
    FdLimit {
        /// What the descriptor was for: the address of a doorbell, the resamplefd of a GSI, or the sleep of a
        /// halted vCPU.
        purpose: String,
        /// The maximum number of descriptors in the sandbox (RLIMIT_NOFILE, at most 2^20).
        limit: u64,
    },
    /// The address of an interrupt handler is 0, or at or above the end of guest addresses.
    #[error(
        "the interrupt handler's address {address:#x} is not below {:#x}",
        stub::layout::GUEST_END
    )]
    Handler {
        /// The requested address.
        address: u64,
    },
}

impl From<UsermodeError> for Error {
    fn from(error: UsermodeError) -> Self {
        Self::Backend(Box::new(error))
    }
}

/// Describes what happened and what it means. Once a sandbox has `started`, its guest can produce any exit code, so the
/// exit codes that stand for start-up failures are no longer trusted.
pub fn describe_exit_status(status: ExitStatus, started: bool) -> String {
    if let Some(signal) = status.signal() {
        return match signal {
            libc::SIGSYS => {
                "killed by SIGSYS: code in it made a system call that is not allowed; the guest \
                             broke into the stub"
                    .to_owned()
            }
            libc::SIGKILL => "killed by SIGKILL, from outside or for want of memory".to_owned(),
            libc::SIGSEGV | libc::SIGBUS => {
                format!(
                    "killed by signal {signal}: its signal stack is gone; the guest wrote over the stub's memory"
                )
            }
            _ => format!("killed by signal {signal}"),
        };
    }
    let code = status.code().unwrap_or(-1);
    match code {
        exit_code::ORPHAN if !started => "its parent was not the monitor".to_owned(),
        exit_code::START..=exit_code::START_LAST if !started => format!(
            "step {} of its start failed: {}",
            code - exit_code::START,
            step(code - exit_code::START)
        ),
        exit_code::PANIC if !started => "the stub panicked".to_owned(),
        code if code > exit_code::STUB_FAULT => format!(
            "signal {} in the stub's own code; the guest wrote over the stub's memory or jumped into it",
            code - exit_code::STUB_FAULT
        ),
        code => format!("exit code {code}; the guest jumped to the stub's exit"),
    }
}

/// Returns the step of the stub's `elf/boot.rs` with this number.
fn step(number: i32) -> &'static str {
    match number {
        1 => "prctl(PR_SET_PDEATHSIG)",
        2..=7 => {
            "mapping memory; is something else mapped at its fixed addresses, or vm.mmap_min_addr above 64 KiB?"
        }
        8 => "unmapping what is not its own",
        9 => "installing signal handlers",
        10 => "prctl(PR_SET_NO_NEW_PRIVS)",
        11 => {
            "seccomp user notification: not in this kernel (5.9), forbidden by a container's own seccomp profile, or \
               the container has a listener already"
        }
        12 | 15 => "installing a seccomp program",
        13 => "starting a thread; is the process limit (ulimit -u) reached?",
        14 => "installing a signal stack",
        16 => "handing the seccomp listener over",
        17 => "blocking signals",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, started: bool) -> String {
        describe_exit_status(ExitStatus::from_raw(code << 8), started)
    }

    #[test]
    fn an_exit_code_is_a_step_of_the_start_only_before_the_start_is_over() {
        let step = exit_code::START + 6;
        assert!(exit(step, false).starts_with("step 6 of its start"));
        for code in [
            step,
            exit_code::ORPHAN,
            exit_code::PANIC,
            exit_code::UNPARKED,
        ] {
            let text = exit(code, true);
            assert!(
                text.contains("the guest jumped to the stub's exit"),
                "{text}"
            );
        }
    }
}
