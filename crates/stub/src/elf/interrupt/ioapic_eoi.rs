//! The EOI of an I/O APIC interrupt, on the vCPU's thread: the line goes down, and the pin's resamplefds are
//! signalled. The monitor does it only where a pin has more resamplefds than the stub knows.

use super::apic::deliver;
use super::resample_poll::poll_after_resample;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::pio::heavy_exit;
use crate::elf::syscall::ring_eventfd;
use crate::event::Event;
use crate::ioapic::{self, EoiActions, Pin, PinLine};
use crate::lapic::Message;
use crate::layout::reason;

struct StubEoi<'c> {
    cpu: &'c PerCpu,
    /// Whether a resamplefd was signalled.
    signalled: bool,
}

impl EoiActions for StubEoi<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        deliver(self.cpu, message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        self.signalled = true;
        let one = control().one.as_ptr();
        pin.resamplefds()
            .for_each(|descriptor| ring_eventfd(descriptor, one));
    }

    fn count(&mut self, event: Event) {
        super::count(self.cpu, event);
    }
}

/// Does the EOI of each pin with `vector`, which has left service. It runs in a read-side section, whose end the
/// removal of a resamplefd waits for.
pub fn eoi_pins(cpu: &PerCpu, vector: u8) {
    let (pins, lines) = (&control().pins, &shared().lines);
    let mut pin_lines = PinLine::with_vector(pins, lines, vector);
    if pin_lines.any(|(_, pin_line)| pin_line.pin.needs_monitor_eoi()) {
        heavy_exit(cpu, reason::EOI, 0, vector.into(), 0, 0);
        return;
    }
    let sections = &shared().trap_sections;
    let section = sections.enter(&control().phase);
    let mut eoi = StubEoi {
        cpu,
        signalled: false,
    };
    ioapic::eoi_pins(pins, lines, vector, &mut eoi);
    sections.leave(section);
    if eoi.signalled {
        poll_after_resample(cpu);
    }
}
