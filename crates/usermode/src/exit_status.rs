//! Describes in words how a sandbox ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use stub::layout::exit_code;

/// Says what happened and what it means. Once a sandbox has `started`, its guest can produce any exit code, so
/// the codes of the start are no longer believed.
pub fn describe(status: ExitStatus, started: bool) -> String {
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

/// The steps of the stub's `elf/boot.rs`, by number.
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
        describe(ExitStatus::from_raw(code << 8), started)
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
