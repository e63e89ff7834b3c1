//! Kicks: a signal that makes a vCPU hand over wherever it is, and never gets lost.
//!
//! Where it lands decides. In guest code: the exit sequence takes it. In stub code: it is noted,
//! and the exit sequence, which looks last thing before it leaves, takes it; if it lands behind
//! that look, the sequence starts again. In direct code, which runs on the guest's stack inside a
//! doorbell section: it waits for the section's end, which traps while any kick waits.

use crate::context::Context;
use crate::direct;
use crate::entry::{stub_exit_begin, stub_exit_end, stub_resume};
use crate::handover::hand_over;
use crate::layout::{GUEST_END, reason};
use crate::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;

/// The handler's part: note the kick, and leave.
pub fn arrive(context: *mut Context, cpu: &PerCpu) {
    // SAFETY: the kernel's frame on this vCPU's signal stack, exclusively ours until we leave it.
    let frame = unsafe { &mut *context };
    let counters = &cpu.run().counters;
    counters.kicks.fetch_add(1, Relaxed);
    if frame.rip < GUEST_END {
        cpu.kick.store(1, Relaxed);
    } else if direct::contains(frame.rip) {
        direct::defer_kick(frame, cpu);
    } else {
        cpu.kick.store(1, Relaxed);
        let (begin, end) = (
            stub_exit_begin as *const () as u64,
            stub_exit_end as *const () as u64,
        );
        if (begin..end).contains(&frame.rip) {
            counters.rewinds.fetch_add(1, Relaxed);
            frame.rip = begin;
        }
        // SAFETY: `context` is the innermost frame, and its registers are those of stub code.
        unsafe { stub_resume(context) };
    }
}

/// The exit sequence's part: hand over to the monitor.
///
/// # Safety
/// `context` and `cpu` are those of the trap that is being left.
pub unsafe extern "C" fn take(context: *mut Context, cpu: *const PerCpu) {
    // SAFETY: the slot of this thread, found by its stack pointer.
    let cpu = unsafe { &*cpu };
    // SAFETY: the frame that is being left, which nothing else refers to now.
    let frame = unsafe { &mut *context };
    cpu.kick.store(0, Relaxed);
    if direct::is_inside(frame.rip) {
        // A second kick, while the first was being deferred: nobody stops inside a section.
        direct::defer_kick(frame, cpu);
        return;
    }
    let run = cpu.run();
    run.counters.heavy.fetch_add(1, Relaxed);
    run.exit.reason.store(reason::KICKED, Relaxed);
    run.exit.rip.store(frame.rip, Relaxed);
    hand_over(run);
}
