//! Hands a vCPU over to the monitor and waits until the monitor enters it again. The vCPU's thread runs this.

use crate::elf::percpu::control;
use crate::elf::syscall::{futex_wait, futex_wake};
use crate::layout::RunPage;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

/// Publishes the exit that the caller wrote into `run.exit`, waits until the monitor answers, and returns the
/// answer. The exit sequence takes the kicks that arrive meanwhile.
pub fn hand_over(run: &RunPage) -> u64 {
    let before = run.entry_handover.sequence.load(Relaxed);
    run.exit_handover.sequence.fetch_add(1, SeqCst);
    if run.exit_handover.sleeping.load(SeqCst) != 0 {
        futex_wake(&run.exit_handover.sequence);
    }
    await_entry(run, before);
    run.reply.load(Relaxed)
}

/// Waits until the monitor has handed the vCPU over: its sequence number is no longer `before`.
pub fn await_entry(run: &RunPage, before: u32) {
    let handover = &run.entry_handover;
    if spin(run, before) {
        return;
    }
    loop {
        handover.sleeping.store(1, SeqCst);
        if handover.sequence.load(SeqCst) != before {
            break;
        }
        futex_wait(&handover.sequence, before);
    }
    handover.sleeping.store(0, Relaxed);
}

fn spin(run: &RunPage, before: u32) -> bool {
    let budget = control().spin_ticks.load(Relaxed);
    let handover = &run.entry_handover;
    if budget == 0 || (control().spin_adaptive.load(Relaxed) != 0 && !monitor_runs_elsewhere(run)) {
        return false;
    }
    let start = now();
    while now().wrapping_sub(start) < u64::from(budget) {
        for _ in 0..16 {
            if handover.sequence.load(Acquire) != before {
                return true;
            }
            core::hint::spin_loop();
        }
    }
    false
}

/// Whether the monitor is known to run on another CPU: spinning on the CPU that it waits for only delays it.
fn monitor_runs_elsewhere(run: &RunPage) -> bool {
    let mine = cpu() + 1;
    run.entry_handover.waiter_cpu.store(mine, Relaxed);
    let theirs = run.exit_handover.waiter_cpu.load(Relaxed);
    theirs != 0 && theirs != mine
}

fn now() -> u64 {
    // SAFETY: `rdtsc` is allowed: the monitor does not set PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn cpu() -> u32 {
    let mut auxiliary = 0;
    // SAFETY: as for `rdtsc`; Linux keeps the CPU number in the low 12 bits of TSC_AUX.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut auxiliary) };
    auxiliary & 0xfff
}
