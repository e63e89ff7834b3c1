//! How the monitor waits for the sandbox, on a futex in shared memory or by polling, and how it wakes the sandbox. Runs
//! on the threads that run vCPUs, start sandboxes, or register or remove doorbells and irqfds.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

use stub::layout::{Handover, RunPage};

use vmbell_hypervisor::SpinPolicy;

/// How long the monitor or the stub spins with [`SpinPolicy::Spin`] before it sleeps, in TSC ticks: about a
/// millisecond, much longer than any hand-over.
pub const SPIN_TICKS: u32 = 3_000_000;
/// How long the monitor or the stub spins with [`SpinPolicy::Adaptive`], which only guesses that spinning helps: about
/// ten hand-overs between sleeping threads.
pub const ADAPTIVE_TICKS: u32 = 150_000;

/// Returns the spin budget of a policy, in TSC ticks.
pub const fn spin_ticks(policy: SpinPolicy) -> u32 {
    match policy {
        SpinPolicy::Sleep | SpinPolicy::OneCpu => 0,
        SpinPolicy::Spin => SPIN_TICKS,
        SpinPolicy::Adaptive => ADAPTIVE_TICKS,
    }
}

/// How often a sleeping monitor checks whether the sandbox still runs. The word that it sleeps on is in shared memory,
/// where a guest can undo the wake-up.
pub const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the sequence number of exits differs from `seen`, and returns it. Before each sleep, `recheck` returns
/// the longest time to sleep, or `None` if there is nothing to wait for.
pub fn await_exit(
    run: &RunPage,
    seen: u32,
    policy: SpinPolicy,
    mut recheck: impl FnMut() -> Option<Duration>,
) -> u32 {
    let handover = &run.exit_handover;
    if let Some(number) = spin(run, seen, policy) {
        return number;
    }
    let number = loop {
        handover.sleeping.store(1, SeqCst);
        let number = handover.sequence.load(SeqCst);
        if number != seen {
            break number;
        }
        let Some(interval) = recheck() else {
            break number;
        };
        futex_wait(&handover.sequence, seen, interval);
    };
    handover.sleeping.store(0, Relaxed);
    number
}

fn spin(run: &RunPage, seen: u32, policy: SpinPolicy) -> Option<u32> {
    let budget = u64::from(spin_ticks(policy));
    if budget == 0 || (policy == SpinPolicy::Adaptive && !runs_elsewhere(run)) {
        return None;
    }
    let start = ticks();
    while ticks().wrapping_sub(start) < budget {
        for _ in 0..16 {
            let number = run.exit_handover.sequence.load(Acquire);
            if number != seen {
                return Some(number);
            }
            std::hint::spin_loop();
        }
    }
    None
}

/// Returns whether the vCPU waits on a different CPU from this thread's. Spinning on the CPU that the vCPU needs would
/// only delay it.
fn runs_elsewhere(run: &RunPage) -> bool {
    // SAFETY: takes no arguments.
    let cpu = unsafe { libc::sched_getcpu() };
    let mine = u32::try_from(cpu).map_or(0, |cpu| cpu + 1);
    run.exit_handover.waiter_cpu.store(mine, Relaxed);
    let theirs = run.entry_handover.waiter_cpu.load(Relaxed);
    theirs != 0 && theirs != mine
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Hands the vCPU over to the other side and wakes it if it sleeps.
pub fn hand_over(handover: &Handover) {
    handover.sequence.fetch_add(1, SeqCst);
    if handover.sleeping.load(SeqCst) != 0 {
        futex_wake(&handover.sequence);
    }
}

/// Sleeps until woken, for at most `time`, if `word` is still `expected`. It may also return spuriously.
pub fn futex_wait(word: &AtomicU32, expected: u32, time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: `word` and `time` live until the call returns.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const time,
        )
    };
}

/// Wakes all threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: `word` is mapped while the reference lives.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// How long a wait continues while a sandbox that is not stopped gets no CPU. On a host with eight busy loops, a
/// sandbox of nice 19 gets none for about 2.4 s; a frozen or traced sandbox never gets one.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The pauses of a polling loop: it yields first, then sleeps longer each time, so that the sandbox gets the CPU that
/// it may need to answer.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits until the next poll, at most a millisecond.
    pub fn pause(&mut self) {
        const YIELDS: u32 = 16;
        if self.0 < YIELDS {
            std::thread::yield_now();
        } else {
            let micros = 10_u64 << (self.0 - YIELDS);
            std::thread::sleep(Duration::from_micros(micros.min(1000)));
        }
        self.0 = (self.0 + 1).min(YIELDS + 7);
    }
}
