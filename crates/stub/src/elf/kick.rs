//! Kicks: a signal that makes a vCPU hand over to the monitor wherever it is, and never gets lost.
//!
//! The place where the signal arrives decides. In guest code, the kick is noted and the exit sequence takes it.
//! In stub code, it is noted as well; the exit sequence checks for noted kicks just before it enters the guest,
//! and starts again if one arrives after that check. In direct code, which runs on the guest's stack inside a
//! read-side section, the kick is deferred to the code's end, which traps while any kick is deferred.
//!
//! The interrupt signal takes the same ways, but makes the vCPU look at its local APIC only.

use crate::elf::context::Context;
use crate::elf::direct;
use crate::elf::entry::{stub_exit_begin, stub_exit_end, stub_resume};
use crate::elf::handover::hand_over;
use crate::elf::interrupt;
use crate::elf::percpu::PerCpu;
use crate::elf::trap::SIGUSR1;
use crate::layout::reason;
use crate::sync::Ordering::Relaxed;

/// Bit of [`PerCpu::noted`] and [`PerCpu::deferred`]: a kick.
pub const KICK: u32 = 1;
/// Bit of the same words: an interrupt signal.
pub const INTERRUPT: u32 = 2;

/// A kick arrived in guest code or direct code: notes or defers it.
pub fn arrive(frame: &mut Context, cpu: &PerCpu) {
    cpu.run().counters.kicks.fetch_add(1, Relaxed);
    if direct::is_inside(frame.rip) {
        direct::defer(frame, cpu, KICK);
    } else {
        cpu.noted.fetch_or(KICK, Relaxed);
    }
}

/// A kick or an interrupt signal arrived in stub code: notes it, and returns there.
pub fn arrive_in_stub(signal: u32, context: *mut Context, cpu: &PerCpu) -> ! {
    let counters = &cpu.run().counters;
    if signal == SIGUSR1 {
        counters.kicks.fetch_add(1, Relaxed);
        cpu.noted.fetch_or(KICK, Relaxed);
        if interrupt::enabled() {
            interrupt::cancel_halt(cpu);
        }
    } else {
        cpu.interrupts().mode.signal_arrived();
        counters.signals.fetch_add(1, Relaxed);
        cpu.noted.fetch_or(INTERRUPT, Relaxed);
    }
    // SAFETY: the kernel's frame on this vCPU's signal stack; nothing else refers to it until it is left.
    let frame = unsafe { &mut *context };
    let (begin, end) = (
        stub_exit_begin as *const () as u64,
        stub_exit_end as *const () as u64,
    );
    if (begin..end).contains(&frame.rip) {
        counters.rewinds.fetch_add(1, Relaxed);
        frame.rip = begin;
    }
    // SAFETY: `context` is the innermost frame, and its registers are those of stub code.
    unsafe { stub_resume(context) }
}

/// Called by the exit sequence: does what was noted, and delivers interrupts again.
///
/// # Safety
/// `context` and `cpu` are those of the trap that is being left.
pub unsafe extern "C" fn take(context: *mut Context, cpu: *const PerCpu) {
    // SAFETY: the slot of this thread, found by its stack pointer.
    let cpu = unsafe { &*cpu };
    // SAFETY: the frame that is being left, which nothing else refers to now.
    let frame = unsafe { &mut *context };
    let noted = cpu.noted.swap(0, Relaxed);
    if interrupt::enabled() {
        interrupt::withdraw(cpu);
    }
    if noted & KICK != 0 {
        if direct::is_inside(frame.rip) {
            // This is a second kick, which arrived while the first was being deferred. A vCPU must not stop
            // inside a read-side section.
            direct::defer(frame, cpu, KICK);
        } else {
            hand_kick_over(frame, cpu);
        }
    }
    interrupt::enter(frame, cpu);
}

/// Hands a kick over to the monitor.
pub fn hand_kick_over(frame: &Context, cpu: &PerCpu) {
    let run = cpu.run();
    run.counters.heavy.fetch_add(1, Relaxed);
    run.exit.reason.store(reason::KICKED, Relaxed);
    run.exit.rip.store(frame.rip, Relaxed);
    hand_over(run);
}
