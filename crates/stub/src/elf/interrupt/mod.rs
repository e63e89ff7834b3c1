//! Interrupts, from the request to the guest's handler.
//!
//! Whether a vCPU can be interrupted is bit 21 of its own flags (`ID`), set while it is masked: ring
//! 3 may change that bit, and nothing else depends on it. So the state is the thread's own at every
//! instant, `iretq` and `popfq` restore it without a trap, and a thread of the guest's may be
//! interrupted on one vCPU and go on on another. Only `cli` and `sti`, which trap, look like KVM's.
//!
//! Every way out of the guest calls [`leave`], every way back [`enter`]. Both do nothing for a guest
//! without local APICs. Who sends an interrupt finds out by [`crate::presence`] whether the vCPU has
//! to be fetched with a signal; that arrives here too, wherever the vCPU is.

mod apic;
mod halt;
mod inject;
mod line;
mod linger;
mod mask;
mod pv_eoi;

pub use apic::{Answer, covers, load, read_msr, store, write_msr};
pub use halt::{halt, stay_awake};
pub use inject::return_from_handler;
pub use linger::Linger;
pub use mask::{mask, mask_at_start, unmask};

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

/// Counts an event of a guest with interrupts; what others do is counted by [`Counters`](crate::layout::Counters) alone.
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

/// The vCPU has left the guest: before anything else is done about it. True if the signal was about
/// interrupts and all is done but [`enter`].
#[inline(always)]
pub fn leave(signal: u32, frame: &mut Context, cpu: &PerCpu) -> bool {
    enabled() && left(signal, frame, cpu)
}

// Out of line and away: a guest without interrupts shall pay for a branch that is not taken.
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

/// The vCPU was about to enter the guest, or was in it, and is not.
pub fn withdraw(cpu: &PerCpu) {
    cpu.interrupts().presence.leave();
    pv_eoi::complete(cpu);
}

/// An exit was answered in the sandbox.
fn answered(cpu: &PerCpu) {
    cpu.run().counters.light.fetch_add(1, Relaxed);
}

/// The last thing before the exit sequence: what can be delivered is.
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
        // The exit sequence hands over first, and comes back here.
        return;
    }
    if noted & INTERRUPT != 0 {
        cpu.noted.fetch_and(!INTERRUPT, Relaxed);
    }
    cpu.interrupts().presence.enter();
    let waits = inject::offer(frame, cpu);
    mask::set_window(frame, cpu, waits);
    cpu.run().counters.events.count(Event::Entry);
}

/// The interrupt signal found the vCPU in the guest.
fn arrive(cpu: &PerCpu) {
    cpu.interrupts().presence.arrived();
    cpu.run().counters.signals.fetch_add(1, Relaxed);
    answered(cpu);
}
