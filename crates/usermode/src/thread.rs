//! The signals that the monitor sends to a vCPU's thread in the sandbox: the kick (SIGUSR1) and the interrupt
//! signal (SIGUSR2), from any thread.
//!
//! One kick is under way at a time, since kicks that interrupt the handling of kicks would fill the signal
//! stack. The state is in the monitor's own memory, which the sandbox cannot write.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// After how long an unanswered kick is sent again. A vCPU may have been kicked just before it blocked in the
/// write to a full eventfd.
const KICK_RESEND_INTERVAL: Duration = Duration::from_millis(10);

/// How long a vCPU may leave all kicks unanswered before the CPU time of its sandbox counts. An honest vCPU answers as
/// soon as it has a CPU; a guest that wrote over the stub's memory may never answer.
const KICK_TIMEOUT: Duration = Duration::from_secs(5);

/// The CPU time that the sandbox may use after [`KICK_TIMEOUT`], for each of its vCPUs: on a busy host the others may get
/// the CPU before the one that was kicked.
const KICK_BUDGET: Duration = Duration::from_secs(1);

/// How long a vCPU may leave all kicks unanswered in any case: a sandbox that sleeps uses no CPU time.
const IDLE_KICK_TIMEOUT: Duration = Duration::from_secs(20);

/// A vCPU's thread in the sandbox.
#[derive(Debug)]
pub struct VcpuThread {
    process: libc::pid_t,
    id: Pid,
    /// When the kick that the vCPU has not answered yet was sent, in nanoseconds; 0 without such a kick.
    kick_sent_at: AtomicU64,
    /// Since when the vCPU has left kicks unanswered, in nanoseconds; 0 means that it has not.
    unanswered_since: AtomicU64,
    /// The CPU time of the sandbox, in nanoseconds, when [`KICK_TIMEOUT`] was seen to be over; 0 means that it was not.
    used_at_timeout: AtomicU64,
    /// Whether the monitor waits for the vCPU.
    monitor_waits: AtomicBool,
}

/// What became of a kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KickResult {
    /// The kick is on its way, or an earlier one that the vCPU has not answered.
    Sent,
    /// The vCPU has left its kicks unanswered for longer than an honest vCPU can.
    Unanswered,
}

impl VcpuThread {
    /// The thread `id` of `process`. Both numbers must have been read before any guest code ran.
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

    /// The thread's ID. Linux hands out IDs in order, so the ID of a thread that has just ended is not in use again yet.
    pub const fn id(&self) -> Pid {
        self.id
    }

    /// Makes the vCPU leave the guest. `cpu_time` returns the CPU time that its sandbox, which has this number of
    /// `vcpus`, has used. The process must not have been reaped.
    pub fn kick(&self, vcpus: u32, cpu_time: impl FnOnce() -> Duration) -> KickResult {
        let now = nanoseconds();
        if self.monitor_waits.load(SeqCst)
            && let Err(since) = self
                .unanswered_since
                .compare_exchange(0, now, SeqCst, SeqCst)
        {
            let unanswered = Duration::from_nanos(now.saturating_sub(since));
            if unanswered > IDLE_KICK_TIMEOUT
                || (unanswered > KICK_TIMEOUT && self.has_used(KICK_BUDGET * vcpus, cpu_time()))
            {
                return KickResult::Unanswered;
            }
        }
        // A read-modify-write, so that the vCPU's thread in the monitor, which clears the word, sees all that
        // this thread wrote before.
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

    /// Whether the sandbox, which has used `cpu_time` now, has used `budget` since [`KICK_TIMEOUT`] was over.
    fn has_used(&self, budget: Duration, cpu_time: Duration) -> bool {
        let used = as_nanoseconds(cpu_time).max(1);
        let before = self
            .used_at_timeout
            .compare_exchange(0, used, SeqCst, SeqCst);
        before.is_err_and(|before| used.saturating_sub(before) > as_nanoseconds(budget))
    }

    /// Whether a kick was sent that the vCPU has not answered yet.
    pub fn is_kicked(&self) -> bool {
        self.kick_sent_at.load(SeqCst) != 0
    }

    /// Sends the interrupt signal, which makes the vCPU look at its local APIC. The process must not have been
    /// reaped.
    pub fn interrupt(&self) {
        self.signal(libc::SIGUSR2);
    }

    fn signal(&self, signal: libc::c_int) {
        let thread = self.id.as_raw_pid();
        // SAFETY: no pointers. The process is not reaped, so no other process has its number, and the kernel
        // checks that the thread belongs to it.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, thread, signal) };
    }

    /// The monitor begins to wait for the vCPU.
    pub fn enter(&self) {
        // The time for an answer begins again. The word is seldom written: a store at every entry would take its
        // cache line from the threads that kick.
        if self.unanswered_since.load(Relaxed) != 0 {
            self.used_at_timeout.store(0, SeqCst);
            self.unanswered_since.store(0, SeqCst);
        }
        self.monitor_waits.store(true, Release);
    }

    /// The monitor no longer waits for the vCPU, which has left the guest.
    pub fn leave(&self) {
        self.monitor_waits.store(false, Release);
    }

    /// The vCPU has answered its kick: the next kick sends a signal again.
    pub fn clear_kick(&self) {
        self.kick_sent_at.swap(0, SeqCst);
    }

    /// Binds the thread to a host CPU.
    pub fn pin(&self, cpu: usize) -> io::Result<()> {
        bind(Some(self.id), &[cpu])
    }
}

/// Binds `thread` to host CPUs; `None` is the calling thread.
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

/// The host CPUs that the calling thread may run on.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Nanoseconds since a moment at or before the first call; never 0.
fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
