//! A vCPU's thread in the sandbox, as the monitor kicks it.
//!
//! Kicks go out one at a time, since kicks that land on kicks would fill the signal stack. The
//! bookkeeping is the monitor's own: the sandbox cannot touch it. Kicks come from any thread.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// How long a kick may stay unanswered before another is sent after it. A vCPU that sleeps in the
/// write to a full eventfd may have been kicked just before it did.
const AGAIN: Duration = Duration::from_millis(10);

/// How long kicks may stay unanswered altogether. An honest vCPU answers as soon as it has a CPU;
/// a guest that wrote over the stub's memory may never.
const PATIENCE: Duration = Duration::from_secs(5);

/// One vCPU's thread.
#[derive(Debug)]
pub struct Thread {
    process: libc::pid_t,
    id: libc::pid_t,
    /// When the kick was sent that the vCPU has not answered yet, in nanoseconds; 0 is none.
    kicked: AtomicU64,
    /// Since when the vCPU has owed an answer; 0 is nothing owed.
    owing: AtomicU64,
    /// Whether the monitor waits for the vCPU.
    inside: AtomicBool,
}

/// What became of a kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// It is on its way, or one is that was not answered yet.
    Sent,
    /// The vCPU has answered none for so long that it never will.
    Unanswered,
}

impl Thread {
    /// The thread `id` of `process`, both known before any guest code ran.
    pub const fn new(process: libc::pid_t, id: libc::pid_t) -> Self {
        Self {
            process,
            id,
            kicked: AtomicU64::new(0),
            owing: AtomicU64::new(0),
            inside: AtomicBool::new(false),
        }
    }

    /// Makes the vCPU leave the guest. The process must not have been reaped.
    pub fn kick(&self) -> Kicked {
        let now = nanoseconds();
        if self.inside.load(SeqCst) {
            let since = self
                .owing
                .compare_exchange(0, now, SeqCst, SeqCst)
                .unwrap_or_else(|since| since);
            if since != 0 && now.saturating_sub(since) > as_nanoseconds(PATIENCE) {
                return Kicked::Unanswered;
            }
        }
        // A read-modify-write, so that whoever is told to leave sees what was written before this.
        let mut before = self.kicked.fetch_add(0, SeqCst);
        loop {
            if before != 0 && now.saturating_sub(before) < as_nanoseconds(AGAIN) {
                return Kicked::Sent;
            }
            match self.kicked.compare_exchange(before, now, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(found) => before = found,
            }
        }
        // SAFETY: no pointers. The process is not reaped, so its number is not somebody else's, and
        // the kernel checks that the thread is one of its own.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.id, libc::SIGUSR1) };
        Kicked::Sent
    }

    /// Whether a kick is on its way to the vCPU, which has not answered it yet.
    pub fn is_kicked(&self) -> bool {
        self.kicked.load(SeqCst) != 0
    }

    /// Makes the vCPU look at its local APIC. The process must not have been reaped.
    pub fn interrupt(&self) {
        // SAFETY: as in `kick`.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.id, libc::SIGUSR2) };
    }

    /// The monitor begins to wait for the vCPU.
    pub fn enter(&self) {
        // What was owed before is owed from now on. Seldom written: a store at every entry would
        // take the line from those who kick.
        if self.owing.load(Relaxed) != 0 {
            self.owing.store(0, SeqCst);
        }
        self.inside.store(true, Release);
    }

    /// The vCPU has left the guest, for whatever reason.
    pub fn leave(&self) {
        self.inside.store(false, Release);
    }

    /// The vCPU has answered its kick; the next one is sent.
    pub fn answered(&self) {
        self.kicked.swap(0, SeqCst);
    }

    /// Binds the thread to a host CPU.
    pub fn pin(&self, cpu: usize) -> io::Result<()> {
        bind(Pid::from_raw(self.id), &[cpu])
    }
}

/// Binds a thread to host CPUs; none is the calling one.
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

/// Time since some moment before the first call, never 0.
fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
