//! The end of an interrupt whose line somebody waits for: the line goes down, and its resamplefds are
//! signalled, all on the vCPU's thread. The monitor does it only where a pin has more of them than the
//! stub knows.

use super::apic::deliver;
use super::linger::await_answer;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::pio::heavy;
use crate::elf::syscall::ring_eventfd;
use crate::event::Event;
use crate::ioapic::{self, EndOfInterrupt, Pin, Wire};
use crate::lapic::Message;
use crate::layout::reason;

struct Ending<'c> {
    cpu: &'c PerCpu,
    /// Whether a resamplefd was signalled.
    told: bool,
}

impl EndOfInterrupt for Ending<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        deliver(self.cpu, message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        self.told = true;
        let one = control().one.as_ptr();
        pin.resamplers()
            .for_each(|descriptor| ring_eventfd(descriptor, one));
    }

    fn note(&mut self, event: Event) {
        super::count(self.cpu, event);
    }
}

/// A watched vector has left service. In a section: whoever removes a resamplefd waits for it.
pub fn end(cpu: &PerCpu, vector: u8) {
    let (pins, lines) = (&control().pins, &shared().lines);
    let mut wires = Wire::with_vector(pins, lines, vector);
    if wires.any(|(_, wire)| wire.pin.is_crowded()) {
        heavy(cpu, reason::EOI, 0, vector.into(), 0, 0);
        return;
    }
    let sections = &shared().trapped;
    let section = sections.enter(&control().phase);
    let mut ending = Ending { cpu, told: false };
    ioapic::end(pins, lines, vector, &mut ending);
    sections.leave(section);
    if ending.told {
        await_answer(cpu);
    }
}
