//! Interrupts of a vCPU, from the request to the guest's handler, on the vCPU's thread.
//!
//! The interrupt mask of a vCPU is bit 21 of its flags register (`ID`), set while interrupts are masked: ring 3 may
//! change that bit, and nothing else depends on it. So the mask is part of the guest thread's registers at all times,
//! `iretq` and `popfq` restore it without a trap, and a guest may move an interrupted thread from one vCPU to another.
//! Only `cli` and `sti`, which trap, work as on KVM.
//!
//! Every exit from the guest calls [`leave`], and every entry calls [`enter`]. Both do nothing for a guest without
//! local APICs. The sender of an interrupt finds out through [`vmbell_core::vcpu_mode`] whether the vCPU needs the
//! interrupt signal. That signal is handled here as well, wherever the vCPU is when it arrives.

mod apic;
mod eoi;
mod halt;
mod inject;

use crate::elf::entry::Context;
use crate::elf::kick::{INTERRUPT, KICK};
use crate::elf::percpu::{PerCpu, control};
use crate::elf::trap::{SIGUSR1, SIGUSR2};
use vmbell_core::event::Event;
use vmbell_core::sync::Ordering::Relaxed;

pub use apic::{
    MsrResult, is_lapic_address, is_lapic_page, load_lapic, read_msr, store_lapic, write_msr,
};
pub use eoi::ResamplePoll;
pub use halt::{cancel_halt, halt};
pub use inject::{mask, mask_at_start, return_from_handler, unmask};

/// Whether this guest has local APICs.
#[inline(always)]
pub fn has_lapics() -> bool {
    control().interrupts.load(Relaxed) != 0
}

/// Counts an event of a guest with local APICs. Other guests use only the other fields of
/// [`Counters`](crate::layout::Counters).
#[inline(always)]
pub fn count(cpu: &PerCpu, event: Event) {
    if has_lapics() {
        count_cold(cpu, event);
    }
}

#[cold]
fn count_cold(cpu: &PerCpu, event: Event) {
    cpu.run().counters.events.count(event);
}

/// Called when the vCPU has left the guest, before the exit is handled. Returns true if the exit was only for an
/// interrupt: then the caller only has to call [`enter`].
#[inline(always)]
pub fn leave(signal: u32, frame: &mut Context, cpu: &PerCpu) -> bool {
    has_lapics() && leave_with_lapics(signal, frame, cpu)
}

// Cold, so that a guest without interrupts only pays for a branch that it does not take.
#[cold]
fn leave_with_lapics(signal: u32, frame: &mut Context, cpu: &PerCpu) -> bool {
    count_cold(cpu, Event::Exit);
    let _ = set_outside_guest(cpu);
    match signal {
        SIGUSR1 => false,
        SIGUSR2 => {
            handle_signal(cpu);
            true
        }
        _ => inject::end_shadow(frame, cpu),
    }
}

/// Marks the vCPU as outside the guest. Returns whether it was in the guest or about to enter it.
fn set_outside_guest(cpu: &PerCpu) -> bool {
    let was_inside = cpu.interrupts().mode.leave();
    eoi::complete(cpu);
    was_inside
}

/// Called when a signal has arrived between [`enter`] and the guest's first instruction: the vCPU does not enter the
/// guest yet. As in KVM, such an entry is not counted (`vcpu_enter_guest` in Linux `arch/x86/kvm/x86.c` cancels it
/// before the tracepoint).
pub fn cancel_entry(cpu: &PerCpu) {
    // If a kick is pending, `enter` returns before it enters the guest and counts the entry, so there is nothing to
    // take back.
    if has_lapics() && set_outside_guest(cpu) {
        cpu.run().counters.events.take_back(Event::Entry);
    }
}

/// Counts an exit that was answered in the sandbox.
fn count_light_exit(cpu: &PerCpu) {
    cpu.run().counters.light.fetch_add(1, Relaxed);
}

/// Delivers a pending interrupt if the guest can take it. This is the last step before the exit sequence.
#[inline(always)]
pub fn enter(frame: &mut Context, cpu: &PerCpu) {
    if has_lapics() {
        enter_with_lapics(frame, cpu);
    }
}

#[cold]
fn enter_with_lapics(frame: &mut Context, cpu: &PerCpu) {
    let pending = cpu.pending_signals.load(Relaxed);
    if pending & KICK != 0 {
        // The exit sequence hands the vCPU over first, and calls this function again.
        return;
    }
    if pending & INTERRUPT != 0 {
        cpu.pending_signals.fetch_and(!INTERRUPT, Relaxed);
    }
    cpu.interrupts().mode.enter();
    let waits = inject::inject_pending(frame, cpu);
    inject::set_window(frame, cpu, waits);
    cpu.run().counters.events.count(Event::Entry);
}

/// Handles an interrupt signal that arrived while the vCPU was in the guest.
fn handle_signal(cpu: &PerCpu) {
    cpu.interrupts().mode.signal_arrived();
    cpu.run().counters.interrupt_signals.fetch_add(1, Relaxed);
    count_light_exit(cpu);
}
