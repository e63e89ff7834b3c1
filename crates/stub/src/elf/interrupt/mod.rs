//! Interrupts of a vCPU, from the request to the guest's handler, on the vCPU's thread.
//!
//! The interrupt mask of a vCPU is bit 21 of its flags register (`ID`), set while interrupts are masked: ring 3
//! may change that bit, and nothing else depends on it. So the mask is part of the guest thread's registers at
//! every instant, `iretq` and `popfq` restore it without a trap, and a guest may move an interrupted thread
//! from one vCPU to another. Only `cli` and `sti`, which trap, work as on KVM.
//!
//! Every exit from the guest calls [`leave`], every entry [`enter`]. Both do nothing for a guest
//! without local APICs. The sender of an interrupt finds out by [`crate::vcpu_mode`] whether the vCPU needs
//! the interrupt signal. That signal is handled here too, wherever it finds the vCPU.

mod apic;
mod halt;
mod inject;
mod ioapic_eoi;
mod mask;
mod pv_eoi;
mod resample_poll;

pub use apic::{Answer, covers, load, read_msr, store, write_msr};
pub use halt::{cancel_halt, halt};
pub use inject::return_from_handler;
pub use mask::{mask, mask_at_start, unmask};
pub use resample_poll::ResamplePoll;

use crate::elf::context::Context;
use crate::elf::kick::{INTERRUPT, KICK};
use crate::elf::percpu::{PerCpu, control};
use crate::elf::trap::{SIGUSR1, SIGUSR2};
use crate::event::Event;
use crate::sync::Ordering::Relaxed;

/// Whether this guest has local APICs.
#[inline(always)]
pub fn enabled() -> bool {
    control().interrupts.load(Relaxed) != 0
}

/// Counts an event of a guest with local APICs; for other guests there are only the other fields of
/// [`Counters`](crate::layout::Counters).
#[inline(always)]
pub fn count(cpu: &PerCpu, event: Event) {
    if enabled() {
        add(cpu, event);
    }
}

#[cold]
fn add(cpu: &PerCpu, event: Event) {
    cpu.run().counters.events.count(event);
}

/// The vCPU has left the guest; called before the exit is handled. True if the exit was only for an
/// interrupt, so that nothing is left to do but [`enter`].
#[inline(always)]
pub fn leave(signal: u32, frame: &mut Context, cpu: &PerCpu) -> bool {
    enabled() && left(signal, frame, cpu)
}

// Cold, so that a guest without interrupts pays only for a branch that is not taken.
#[cold]
fn left(signal: u32, frame: &mut Context, cpu: &PerCpu) -> bool {
    add(cpu, Event::Exit);
    withdraw(cpu);
    match signal {
        SIGUSR1 => false,
        SIGUSR2 => {
            arrive(cpu);
            true
        }
        _ => mask::end_shadow(frame, cpu),
    }
}

/// The vCPU has left the guest, or does not enter it after all.
pub fn withdraw(cpu: &PerCpu) {
    cpu.interrupts().mode.leave();
    pv_eoi::complete(cpu);
}

/// Counts an exit that was answered in the sandbox.
fn answered(cpu: &PerCpu) {
    cpu.run().counters.light.fetch_add(1, Relaxed);
}

/// Delivers a pending interrupt if the guest can take one. It is the last step before the exit sequence.
#[inline(always)]
pub fn enter(frame: &mut Context, cpu: &PerCpu) {
    if enabled() {
        look(frame, cpu);
    }
}

#[cold]
fn look(frame: &mut Context, cpu: &PerCpu) {
    let noted = cpu.noted.load(Relaxed);
    if noted & KICK != 0 {
        // The exit sequence hands the vCPU over first, and calls this again.
        return;
    }
    if noted & INTERRUPT != 0 {
        cpu.noted.fetch_and(!INTERRUPT, Relaxed);
    }
    cpu.interrupts().mode.enter();
    let waits = inject::offer(frame, cpu);
    mask::set_window(frame, cpu, waits);
    cpu.run().counters.events.count(Event::Entry);
}

/// The interrupt signal found the vCPU in the guest.
fn arrive(cpu: &PerCpu) {
    cpu.interrupts().mode.signal_arrived();
    cpu.run().counters.signals.fetch_add(1, Relaxed);
    answered(cpu);
}
