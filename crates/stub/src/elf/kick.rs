//! Kicks: a signal that makes a vCPU hand over to the monitor wherever it is, and never gets lost.
//!
//! The place where the signal arrives decides what happens. In guest code, the kick becomes pending and the exit
//! sequence takes it. The same applies in stub code; the exit sequence checks for pending kicks just before it enters
//! the guest, and starts again if a kick arrives after that check. Direct code runs on the guest's stack inside a
//! read-side section, so a kick there is deferred to the end of the code, which traps while any kick is deferred.
//!
//! The interrupt signal is handled in the same places, but it only makes the vCPU check its local APIC.

use crate::elf::entry::{Context, stub_exit_begin, stub_exit_end, stub_resume};
use crate::elf::exit::hand_over;
use crate::elf::percpu::PerCpu;
use crate::elf::trap::SIGUSR1;
use crate::elf::{direct, interrupt};
use crate::layout::reason;
use vmbell_core::sync::Ordering::Relaxed;

/// Bit of [`PerCpu::pending_signals`] and [`PerCpu::deferred_signals`]: a kick.
pub const KICK: u32 = 1;
/// Bit of [`PerCpu::pending_signals`] and [`PerCpu::deferred_signals`]: an interrupt signal.
pub const INTERRUPT: u32 = 2;

/// Handles a kick that arrived in guest code or direct code: makes it pending or defers it.
pub fn handle_in_guest(frame: &mut Context, cpu: &PerCpu) {
    cpu.run().counters.kicks.fetch_add(1, Relaxed);
    if direct::is_unfinished(frame.rip) {
        direct::defer(frame, cpu, KICK);
    } else {
        cpu.pending_signals.fetch_or(KICK, Relaxed);
    }
}

/// Handles a kick or an interrupt signal that arrived in stub code: makes it pending, and returns to that code.
pub fn handle_in_stub(signal: u32, context: *mut Context, cpu: &PerCpu) -> ! {
    let counters = &cpu.run().counters;
    if signal == SIGUSR1 {
        counters.kicks.fetch_add(1, Relaxed);
        cpu.pending_signals.fetch_or(KICK, Relaxed);
        if interrupt::has_lapics() {
            interrupt::cancel_halt(cpu);
        }
    } else {
        cpu.interrupts().mode.signal_arrived();
        counters.interrupt_signals.fetch_add(1, Relaxed);
        cpu.pending_signals.fetch_or(INTERRUPT, Relaxed);
    }
    // SAFETY: the kernel's frame on this vCPU's signal stack; nothing else refers to the frame until it is left.
    let frame = unsafe { &mut *context };
    let (begin, end) = (
        stub_exit_begin as *const () as u64,
        stub_exit_end as *const () as u64,
    );
    if (begin..end).contains(&frame.rip) {
        counters.exit_restarts.fetch_add(1, Relaxed);
        frame.rip = begin;
    }
    // SAFETY: `context` is the innermost frame, and it has the registers of stub code.
    unsafe { stub_resume(context) }
}

/// Called by the exit sequence: takes the pending signals, and delivers interrupts again.
///
/// # Safety
/// `context` and `cpu` must belong to the trap that is being left.
pub unsafe extern "C" fn take_pending(context: *mut Context, cpu: *const PerCpu) {
    // SAFETY: the slot of this thread, found by its stack pointer.
    let cpu = unsafe { &*cpu };
    // SAFETY: the frame that is being left; nothing else refers to it now.
    let frame = unsafe { &mut *context };
    let pending = cpu.pending_signals.swap(0, Relaxed);
    interrupt::cancel_entry(cpu);
    if pending & KICK != 0 {
        if direct::is_unfinished(frame.rip) {
            // A second kick has arrived while the first one was being deferred. A vCPU must not stop inside a read-side
            // section.
            direct::defer(frame, cpu, KICK);
        } else {
            hand_over_kick(frame, cpu);
        }
    }
    interrupt::enter(frame, cpu);
}

/// Hands a kick over to the monitor.
pub fn hand_over_kick(frame: &Context, cpu: &PerCpu) {
    let run = cpu.run();
    run.counters.heavy.fetch_add(1, Relaxed);
    run.exit.reason.store(reason::KICKED, Relaxed);
    run.exit.rip.store(frame.rip, Relaxed);
    hand_over(run);
}
