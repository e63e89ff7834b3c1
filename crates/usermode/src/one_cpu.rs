//! Runs the two threads of a vCPU on one host CPU ([`SpinPolicy::OneCpu`](vmbell_hypervisor::SpinPolicy::OneCpu)). Used
//! on the thread that runs the vCPU.
//!
//! The monitor and the sandbox take turns: one of them sleeps while the other runs. On two CPUs each turn wakes a CPU;
//! on one CPU it is a context switch. The scheduler does not know that they take turns and wakes the sleeper on an idle
//! CPU, so both threads are bound to one CPU while exits are frequent. A bound thread cannot leave a CPU that is busy
//! with other threads. Both are therefore released after [`TOGETHER`], or when the guest has run for [`PATIENCE`]
//! without an exit, and the scheduler places them before they are bound again.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Exits are frequent when this many occur within [`EXITS_WITHIN`].
const EXITS: u32 = 4;
/// The time limit for [`EXITS`].
const EXITS_WITHIN: Duration = Duration::from_millis(4);
/// How long the threads stay bound. Binding them again takes less than 1 % of this.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long a guest may run without an exit before its threads are released.
pub const PATIENCE: Duration = Duration::from_millis(10);
/// How often bound threads check whether other threads use their CPU.
const CHECK: Duration = Duration::from_millis(10);
/// How long the threads stay apart after others have used their CPU. The time doubles each time, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The limit of the pause that starts at [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// For each CPU, the number of vCPUs of this process whose threads are bound to it.
static BOUND: [AtomicU32; CpuSet::MAX_CPU] = [const { AtomicU32::new(0) }; CpuSet::MAX_CPU];

/// The number of the next [`OneCpu`].
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The number of the vCPU that this thread continued last.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Where the two threads of a vCPU run.
#[derive(Debug)]
pub struct OneCpu {
    number: u64,
    place: Place,
    /// Exits since `since`, when the threads were last bound or released.
    exits: u32,
    since: Instant,
    /// How long the threads stay apart if others use their CPU.
    pause: Duration,
}

#[derive(Debug)]
enum Place {
    /// The scheduler places each thread, at least until this moment.
    ApartUntil(Instant),
    /// Both threads are bound to one CPU.
    Together(Box<Together>),
    /// The scheduler places each thread, permanently: no CPU is allowed for both, or the kernel refused to bind one.
    Refused,
}

/// Two threads that are bound to one CPU until the value is dropped.
#[derive(Debug)]
pub struct Together {
    cpu: Claim,
    monitor: Bound,
    /// The id of the same thread as `monitor`; comparing this id takes no system call.
    caller: ThreadId,
    vcpu: Bound,
    use_of_cpu: Option<UseOfCpu>,
}

impl OneCpu {
    /// Makes the state of a vCPU that has not exited yet.
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            number: NEXT.fetch_add(1, Relaxed),
            place: Place::ApartUntil(now),
            exits: 0,
            since: now,
            pause: FIRST_PAUSE,
        }
    }

    /// Called when the guest has exited and the calling thread is about to continue it on thread `vcpu`: binds or
    /// releases both threads.
    pub fn count_exit(&mut self, vcpu: Pid) {
        self.exits = self.exits.saturating_add(1);
        let was_last = LAST.replace(self.number) == self.number;
        match &mut self.place {
            Place::ApartUntil(_) if self.exits < EXITS => {}
            Place::ApartUntil(moment) => {
                let now = Instant::now();
                let place = if now - self.since > EXITS_WITHIN || now < *moment {
                    Place::ApartUntil(*moment)
                } else {
                    match Together::bind(vcpu, now) {
                        Ok(Some(together)) => Place::Together(Box::new(together)),
                        Ok(None) | Err(_) => Place::Refused,
                    }
                };
                self.move_to(place, now);
            }
            Place::Together(together) => {
                let now = Instant::now();
                if !was_last {
                    // This thread has meanwhile waited for another vCPU, which would look like a disturbance.
                    together.restart_check(now);
                }
                if !together.holds() {
                    self.move_to(Place::ApartUntil(now), now);
                } else if together.is_disturbed(now) {
                    self.move_to(Place::ApartUntil(now + self.pause), now);
                    self.pause = LONGEST_PAUSE.min(self.pause * 2);
                } else if now - self.since > TOGETHER {
                    self.move_to(Place::ApartUntil(now), now);
                    self.pause = FIRST_PAUSE;
                }
            }
            Place::Refused => {}
        }
    }

    fn move_to(&mut self, place: Place, now: Instant) {
        self.place = place;
        self.exits = 0;
        self.since = now;
    }

    /// Returns whether the threads are bound.
    pub const fn is_together(&self) -> bool {
        matches!(self.place, Place::Together(..))
    }

    /// Releases the threads to the scheduler, if they are bound.
    pub fn let_go(&mut self) {
        if self.is_together() {
            let now = Instant::now();
            self.move_to(Place::ApartUntil(now), now);
        }
    }
}

impl Together {
    /// Binds the calling thread and `vcpu`. Returns `None` if no CPU is allowed for both.
    fn bind(vcpu_id: Pid, now: Instant) -> io::Result<Option<Self>> {
        let (mine, theirs) = (sched_getaffinity(None)?, sched_getaffinity(Some(vcpu_id))?);
        let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| mine.is_set(cpu) && theirs.is_set(cpu));
        let Some(cpu) = Claim::of_least_claimed(allowed, sched_getcpu()) else {
            return Ok(None);
        };
        let vcpu = Bound::new(vcpu_id, cpu.0, theirs)?;
        let monitor = Bound::new(gettid(), cpu.0, mine).inspect_err(|_| vcpu.let_go(cpu.0))?;
        Ok(Some(Self {
            monitor,
            caller: thread::current().id(),
            vcpu,
            cpu,
            use_of_cpu: UseOfCpu::open(vcpu_id, now).ok(),
        }))
    }

    /// Returns whether the vCPU still runs on the thread that was bound, and whether that thread is still on the same
    /// CPU.
    fn holds(&self) -> bool {
        sched_getcpu() == self.cpu.0 && self.caller == thread::current().id()
    }

    /// Excludes the time until now from what [`is_disturbed`](Self::is_disturbed) measures.
    fn restart_check(&mut self, now: Instant) {
        if let Some(use_of_cpu) = &mut self.use_of_cpu
            && use_of_cpu.taken_by_others(now).is_err()
        {
            self.use_of_cpu = None;
        }
    }

    /// Returns whether other threads took more than an eighth of the time that the two threads wanted; false if that is
    /// unknown.
    fn is_disturbed(&mut self, now: Instant) -> bool {
        let Some(use_of_cpu) = &mut self.use_of_cpu else {
            return false;
        };
        let time = now - use_of_cpu.since;
        time >= CHECK
            && use_of_cpu
                .taken_by_others(now)
                .is_ok_and(|taken| taken > time / 8)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        self.vcpu.let_go(self.cpu.0);
        self.monitor.let_go(self.cpu.0);
    }
}

/// A thread that is bound to one CPU.
#[derive(Debug)]
struct Bound {
    thread: Pid,
    /// The CPUs that the thread was allowed before.
    before: CpuSet,
}

impl Bound {
    fn new(thread: Pid, cpu: usize, before: CpuSet) -> io::Result<Self> {
        sched_setaffinity(Some(thread), &only(cpu))?;
        Ok(Self { thread, before })
    }

    /// Restores the thread's earlier CPUs, unless other code has meanwhile changed them.
    fn let_go(&self, cpu: usize) {
        if sched_getaffinity(Some(self.thread)).is_ok_and(|now| now == only(cpu)) {
            // A thread that has ended is not found. If a cpuset took the CPUs away, the kernel has placed the thread.
            let _ = sched_setaffinity(Some(self.thread), &self.before);
        }
    }
}

/// The scheduler's times of both threads: `/proc/.../schedstat`, which is all zeros without `CONFIG_SCHED_INFO`.
#[derive(Debug)]
struct UseOfCpu {
    files: [File; 2],
    before: [Times; 2],
    since: Instant,
}

/// The times of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// The time that the thread ran on a CPU.
    running: Duration,
    /// The time that the thread was ready to run and waited for the CPU.
    waiting: Duration,
}

impl UseOfCpu {
    fn open(vcpu: Pid, now: Instant) -> io::Result<Self> {
        // Threads of other processes can also be opened here, although a listing of /proc does not show them.
        let vcpu = format!("/proc/{}/schedstat", vcpu.as_raw_pid());
        let files = [
            File::open("/proc/thread-self/schedstat")?,
            File::open(vcpu)?,
        ];
        Ok(Self {
            before: [Times::read(&files[0])?, Times::read(&files[1])?],
            files,
            since: now,
        })
    }

    /// Returns a lower bound for how long others have run on the CPU since the last call while one of the two threads
    /// waited for the CPU. Each thread also waits while the other one runs.
    fn taken_by_others(&mut self, now: Instant) -> io::Result<Duration> {
        let after = [Times::read(&self.files[0])?, Times::read(&self.files[1])?];
        let [monitor, vcpu] = [0, 1].map(|index| after[index].since(self.before[index]));
        (self.before, self.since) = (after, now);
        let waited_for_others = [
            monitor.waiting.saturating_sub(vcpu.running),
            vcpu.waiting.saturating_sub(monitor.running),
        ];
        Ok(waited_for_others[0].max(waited_for_others[1]))
    }
}

impl Times {
    fn read(file: &File) -> io::Result<Self> {
        let mut text = [0; 64];
        let len = file.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..len]);
        let mut words = text
            .split_ascii_whitespace()
            .map(|word| word.parse().map(Duration::from_nanos));
        match (words.next(), words.next()) {
            (Some(Ok(running)), Some(Ok(waiting))) => Ok(Self { running, waiting }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            running: self.running.saturating_sub(before.running),
            waiting: self.waiting.saturating_sub(before.waiting),
        }
    }
}

/// A vCPU counted in [`BOUND`] for this CPU.
#[derive(Debug)]
struct Claim(usize);

impl Claim {
    /// Claims the CPU to which the fewest vCPUs are bound, preferably `here`.
    fn of_least_claimed(allowed: impl Iterator<Item = usize>, here: usize) -> Option<Self> {
        let load = |cpu: &usize| (BOUND[*cpu].load(Relaxed), *cpu != here);
        let cpu = allowed.min_by_key(load)?;
        BOUND[cpu].fetch_add(1, Relaxed);
        Some(Self(cpu))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        BOUND[self.0].fetch_sub(1, Relaxed);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

#[cfg(test)]
#[path = "one_cpu_test.rs"]
mod tests;
