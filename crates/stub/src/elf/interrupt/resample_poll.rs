//! A vCPU that has signalled a resamplefd polls for a moment for the device's next interrupt, here its answer.
//!
//! A device whose line was resampled raises it again if it has more work, and a device that polls does so
//! within a microsecond. If the vCPU is back in the guest by then, a signal must make it leave, which costs
//! several times as much. Whether polling pays is learnt as Linux learns it for halts
//! (`virt/kvm/kvm_main.c`, `grow_halt_poll_ns`): a vCPU begins to poll when a device has answered within
//! the time that a signal takes. It stops when no answer came while it polled, and each time lets about twice
//! as many answers pass before it polls again. All of it runs on the vCPU's thread.

use crate::elf::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// How long a vCPU polls, in TSC ticks: about 3 us, less than any signal takes.
const POLL_TICKS: u64 = 9_000;
/// An interrupt that comes within this many TSC ticks after the EOI, about 10 us, counts as the device's answer.
const ANSWER_TICKS: u64 = 30_000;
/// The most answers that pass before the vCPU tries to poll again.
const MAX_SKIPS: u32 = 1023;

/// What a vCPU has learnt. All-zero bytes mean that it does not poll.
#[repr(C)]
pub struct ResamplePoll {
    /// The time (TSC) at which a resamplefd was last signalled without polling; 0 if there was none.
    resampled_at: AtomicU64,
    /// Not 0: the vCPU polls.
    polls: AtomicU32,
    /// How many answers must pass before the vCPU polls again.
    skips_left: AtomicU32,
    /// The value that `skips_left` started from last.
    last_skips: AtomicU32,
}

/// Polls for the answer of a device whose resamplefd was just signalled, if polling pays.
pub fn poll_after_resample(cpu: &PerCpu) {
    let state = &cpu.resample_poll;
    let start = now();
    if state.polls.load(Relaxed) == 0 {
        state.resampled_at.store(start, Relaxed);
        return;
    }
    while now().wrapping_sub(start) < POLL_TICKS {
        if !cpu.lapic().irr.is_empty() || cpu.pending_signals.load(Relaxed) != 0 {
            state.last_skips.store(0, Relaxed);
            return;
        }
        core::hint::spin_loop();
    }
    let more = (2 * state.last_skips.load(Relaxed) + 1).min(MAX_SKIPS);
    state.last_skips.store(more, Relaxed);
    state.skips_left.store(more, Relaxed);
    state.polls.store(0, Relaxed);
}

/// An interrupt is injected into the guest: learns from it if it is the answer.
pub fn learn_from_injection(cpu: &PerCpu) {
    let state = &cpu.resample_poll;
    let resampled_at = state.resampled_at.load(Relaxed);
    if resampled_at == 0 {
        return;
    }
    state.resampled_at.store(0, Relaxed);
    if now().wrapping_sub(resampled_at) < ANSWER_TICKS {
        match state.skips_left.load(Relaxed) {
            0 => state.polls.store(1, Relaxed),
            left => state.skips_left.store(left - 1, Relaxed),
        }
    }
}

fn now() -> u64 {
    // SAFETY: `rdtsc` is allowed: the monitor does not set PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}
