//! A vCPU that has signalled a resamplefd waits a moment for the device's next interrupt, here its answer.
//!
//! A device whose line was resampled raises it again if it has more work, and a device that polls does so
//! within a microsecond. If the vCPU is back in the guest by then, a signal must make it leave, which costs
//! several times as much. Whether waiting pays is learnt as Linux learns it for halts
//! (`virt/kvm/kvm_main.c`, `grow_halt_poll_ns`): a vCPU begins to wait when a device has answered within
//! the time that a signal takes. It stops when no answer came while it waited, and each time lets about twice
//! as many answers pass before it waits again. All of it runs on the vCPU's thread.

use crate::elf::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// How long a vCPU waits, in TSC ticks: about 3 us, less than any signal takes.
const WAIT: u64 = 9_000;
/// An interrupt that comes within this many TSC ticks after the EOI, about 10 us, counts as the device's answer.
const ANSWERED: u64 = 30_000;
/// The most answers that pass before the vCPU tries to wait again.
const MOST_SKIPPED: u32 = 1023;

/// What a vCPU has learnt. All-zero bytes mean that it does not wait.
#[repr(C)]
pub struct Linger {
    /// The time (TSC) at which a resamplefd was last signalled without waiting; 0 if there was none.
    told: AtomicU64,
    /// Not 0: the vCPU waits.
    waits: AtomicU32,
    /// How many answers must pass before the vCPU waits again.
    skip: AtomicU32,
    /// The value that `skip` started from last.
    skipped: AtomicU32,
}

/// Waits for the answer of a device whose resamplefd was just signalled, if waiting pays.
pub fn await_answer(cpu: &PerCpu) {
    let state = &cpu.linger;
    let start = now();
    if state.waits.load(Relaxed) == 0 {
        state.told.store(start, Relaxed);
        return;
    }
    while now().wrapping_sub(start) < WAIT {
        if !cpu.lapic().irr.is_empty() || cpu.noted.load(Relaxed) != 0 {
            state.skipped.store(0, Relaxed);
            return;
        }
        core::hint::spin_loop();
    }
    let more = (2 * state.skipped.load(Relaxed) + 1).min(MOST_SKIPPED);
    state.skipped.store(more, Relaxed);
    state.skip.store(more, Relaxed);
    state.waits.store(0, Relaxed);
}

/// An interrupt is injected into the guest: learns from it if it is the answer.
pub fn note_answer(cpu: &PerCpu) {
    let state = &cpu.linger;
    let told = state.told.load(Relaxed);
    if told == 0 {
        return;
    }
    state.told.store(0, Relaxed);
    if now().wrapping_sub(told) < ANSWERED {
        match state.skip.load(Relaxed) {
            0 => state.waits.store(1, Relaxed),
            left => state.skip.store(left - 1, Relaxed),
        }
    }
}

fn now() -> u64 {
    // SAFETY: `rdtsc` is allowed: the monitor does not set PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}
