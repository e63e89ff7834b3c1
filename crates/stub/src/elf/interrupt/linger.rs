//! A vCPU that has told a device of an EOI waits a moment for the device's answer.
//!
//! A device whose line was resampled asserts it again if it has more to say, and one that polls says so
//! within a microsecond. If the vCPU is back in the guest by then, a signal must fetch it, which costs
//! several times as much. Whether waiting pays is learnt as Linux learns it for halts
//! (`virt/kvm/kvm_main.c`, `grow_halt_poll_ns`): a vCPU begins to wait when a device has answered within
//! the time of a signal, and stops when one did not answer while it waited, for twice as many EOIs each
//! time. Runs on the vCPU's thread.

use crate::elf::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// How long it waits, in TSC ticks: about 3 us, less than any signal takes.
const WAIT: u64 = 9_000;
/// An interrupt that comes within this after the EOI is the device's answer, fetched by a signal: about
/// 10 us.
const ANSWERED: u64 = 30_000;
/// How many answers are let pass at most before waiting is tried again.
const MOST_SKIPPED: u32 = 1023;

/// What a vCPU has learnt. All-zero bytes are: nothing, and it does not wait.
#[repr(C)]
pub struct Linger {
    /// When a device was told last and not waited for; 0 is never.
    told: AtomicU64,
    /// Not 0: it waits.
    waits: AtomicU32,
    /// How many answers to let pass before it waits again.
    skip: AtomicU32,
    /// What `skip` was last.
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

/// An interrupt goes into the guest: was it the answer?
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
