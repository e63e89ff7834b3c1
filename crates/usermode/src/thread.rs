//! The signals that the monitor sends to a vCPU's thread in the sandbox: the kick (SIGUSR1) and the interrupt
//! signal (SIGUSR2), from any thread.
//!
//! Only one kick is in progress at a time, because kicks that interrupt the handling of kicks would fill the signal
//! stack. The state is in the monitor's own memory, which the sandbox cannot write.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// When to send an unanswered kick again. A vCPU may have been kicked just before it blocked in the write to a full
/// eventfd.
const KICK_RESEND_INTERVAL: Duration = Duration::from_millis(10);

/// How long a vCPU may leave all kicks unanswered before the CPU time of its sandbox is checked. An honest vCPU answers
/// as soon as it has a CPU; a guest that wrote over the stub's memory may never answer.
const KICK_TIMEOUT: Duration = Duration::from_secs(5);

/// The CPU time that the sandbox may use after [`KICK_TIMEOUT`], for each of its vCPUs: on a busy host the other vCPUs
/// may get the CPU before the kicked one.
const KICK_BUDGET: Duration = Duration::from_secs(1);

/// How long a vCPU may leave all kicks unanswered in any case, because a sandbox that sleeps uses no CPU time.
const IDLE_KICK_TIMEOUT: Duration = Duration::from_secs(20);

/// A vCPU's thread in the sandbox.
#[derive(Debug)]
pub struct VcpuThread {
    process: libc::pid_t,
    id: Pid,
    /// When the kick that the vCPU has not answered yet was sent, in nanoseconds; 0 if there is no such kick.
    kick_sent_at: AtomicU64,
    /// Since when the vCPU has left kicks unanswered, in nanoseconds; 0 if it has not.
    unanswered_since: AtomicU64,
    /// The CPU time of the sandbox, in nanoseconds, when [`KICK_TIMEOUT`] was found to have passed; 0 if it was not.
    used_at_timeout: AtomicU64,
    /// Whether the monitor waits for the vCPU.
    monitor_waits: AtomicBool,
}

/// The result of a kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KickResult {
    /// The kick was sent, or an earlier kick that the vCPU has not answered yet.
    Sent,
    /// The vCPU has left its kicks unanswered for longer than an honest vCPU can.
    Unanswered,
}

impl VcpuThread {
    /// Makes thread `id` of `process`. Both ids must have been read before any guest code ran.
    pub const fn new(process: libc::pid_t, id: Pid) -> Self {
        Self {
            process,
            id,
            kick_sent_at: AtomicU64::new(0),
            unanswered_since: AtomicU64::new(0),
            used_at_timeout: AtomicU64::new(0),
            monitor_waits: AtomicBool::new(false),
        }
    }

    /// Returns the thread's id. Linux assigns ids in order, so the id of a thread that has just ended is not reused
    /// yet.
    pub const fn id(&self) -> Pid {
        self.id
    }

    /// Makes the vCPU leave the guest. `now` is the time as [`nanoseconds`] returns it, `vcpus` the number of vCPUs of
    /// its sandbox, and `cpu_time` returns the CPU time that the sandbox has used. The process must not have been
    /// reaped.
    pub fn kick(&self, now: u64, vcpus: u32, cpu_time: impl FnOnce() -> Duration) -> KickResult {
        if self.monitor_waits.load(SeqCst) && self.is_lost(now, vcpus, cpu_time) {
            return KickResult::Unanswered;
        }
        // A read-modify-write, so that the vCPU's thread in the monitor, which clears the word, sees all that this
        // thread wrote before.
        let mut before = self.kick_sent_at.fetch_add(0, SeqCst);
        loop {
            if before != 0 && now.saturating_sub(before) < as_nanoseconds(KICK_RESEND_INTERVAL) {
                return KickResult::Sent;
            }
            match self
                .kick_sent_at
                .compare_exchange(before, now, SeqCst, SeqCst)
            {
                Ok(_) => break,
                Err(found) => before = found,
            }
        }
        self.signal(libc::SIGUSR1);
        KickResult::Sent
    }

    /// Returns whether the vCPU has left its kicks unanswered for longer than an honest vCPU can.
    fn is_lost(&self, now: u64, vcpus: u32, cpu_time: impl FnOnce() -> Duration) -> bool {
        let before = self
            .unanswered_since
            .compare_exchange(0, now, SeqCst, SeqCst);
        before.is_err_and(|since| {
            let unanswered = Duration::from_nanos(now.saturating_sub(since));
            unanswered > IDLE_KICK_TIMEOUT
                || (unanswered > KICK_TIMEOUT && self.has_used(KICK_BUDGET * vcpus, cpu_time()))
        })
    }

    /// Returns whether the sandbox has used `budget` since [`KICK_TIMEOUT`] ended; its CPU time is now `cpu_time`.
    fn has_used(&self, budget: Duration, cpu_time: Duration) -> bool {
        let used = as_nanoseconds(cpu_time).max(1);
        let before = self
            .used_at_timeout
            .compare_exchange(0, used, SeqCst, SeqCst);
        before.is_err_and(|before| used.saturating_sub(before) > as_nanoseconds(budget))
    }

    /// Returns whether there is a kick that the vCPU has not answered yet.
    pub fn is_kicked(&self) -> bool {
        self.kick_sent_at.load(SeqCst) != 0
    }

    /// Sends the interrupt signal, which makes the vCPU check its local APIC. The process must not have been reaped.
    pub fn interrupt(&self) {
        self.signal(libc::SIGUSR2);
    }

    fn signal(&self, signal: libc::c_int) {
        let thread = self.id.as_raw_pid();
        // SAFETY: no pointers. The process is not reaped, so no other process has its number, and the kernel
        // checks that the thread belongs to it.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, thread, signal) };
    }

    /// Called when the monitor begins to wait for the vCPU.
    pub fn enter(&self) {
        // Restarts the time for an answer. The word is seldom written: a store at every entry would take its cache line
        // from the threads that kick.
        if self.unanswered_since.load(Relaxed) != 0 {
            self.used_at_timeout.store(0, SeqCst);
            self.unanswered_since.store(0, SeqCst);
        }
        self.monitor_waits.store(true, Release);
    }

    /// Called when the monitor no longer waits for the vCPU, which has left the guest.
    pub fn leave(&self) {
        self.monitor_waits.store(false, Release);
    }

    /// Called when the vCPU has answered its kick: the next kick sends a signal again.
    pub fn clear_kick(&self) {
        self.kick_sent_at.swap(0, SeqCst);
    }

    /// Binds the thread to a host CPU.
    pub fn pin(&self, cpu: usize) -> io::Result<()> {
        bind(Some(self.id), &[cpu])
    }
}

/// Binds `thread` to host CPUs; `None` means the calling thread.
pub fn bind(thread: Option<Pid>, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(thread, &set)?)
}

/// Returns the host CPUs that the calling thread may run on.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Returns the nanoseconds since a moment at or before the first call; never 0.
pub fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "thread_test.rs"]
mod tests;
