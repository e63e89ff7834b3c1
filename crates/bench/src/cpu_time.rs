//! CPU time of this process and of the processes that work for it. It includes the cost of a spinning VMM thread, which
//! the guest's own time does not.
#![allow(
    unsafe_code,
    reason = "getrusage has no safe form in a crate that is used here"
)]

use std::mem;

use procfs::process::Process;

/// CPU time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// Time in user mode.
    pub user: f64,
    /// Time in the kernel.
    pub system: f64,
}

impl CpuTime {
    /// The CPU time until now of all threads of this process and of the processes `others`. A process that has ended
    /// adds nothing.
    pub fn so_far(others: &[u32]) -> Self {
        others
            .iter()
            .filter_map(|pid| of_process(*pid))
            .fold(of_self(), Self::plus)
    }

    /// The sum of two CPU times.
    pub fn plus(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    /// The CPU time used since `earlier`, never negative.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: (self.user - earlier.user).max(0.0),
            system: (self.system - earlier.system).max(0.0),
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "seconds of CPU time, far below 2^53"
)]
fn of_self() -> CpuTime {
    // SAFETY: rusage has only integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is ours and lives through the call, which writes one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return CpuTime::default();
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTime {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
    }
}

/// Reads the CPU time of a process from `/proc/PID/stat`, which counts clock ticks: too coarse for one run, good over
/// all of them.
#[allow(
    clippy::cast_precision_loss,
    reason = "clock ticks of CPU time, far below 2^53"
)]
fn of_process(pid: u32) -> Option<CpuTime> {
    let process = Process::new(pid.try_into().ok()?).ok()?;
    let stat = process.stat().ok()?;
    let hz = procfs::ticks_per_second() as f64;
    Some(CpuTime {
        user: stat.utime as f64 / hz,
        system: stat.stime as f64 / hz,
    })
}

#[cfg(test)]
#[path = "cpu_time_test.rs"]
mod tests;
