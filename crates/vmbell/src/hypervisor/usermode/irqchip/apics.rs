//! The part of an irqchip that is in memory which monitor and sandbox both map: local APICs, pins and lines.
//!
//! Each thread that raises or ends an interrupt makes an [`Apics`] for that call. Local APICs accept messages
//! without a lock.

use std::cell::Cell;

use stub::event::{Event, EventCounts};
use stub::ioapic::{Lines, PinLine, Pins};
use stub::lapic::{Lapic, Message, Raise};
use stub::presence::Tell;

use crate::irq::{IrqError, Msi};

/// Local APICs, pins and lines of one guest, and the way to notify vCPUs of requests.
pub struct Apics<'s> {
    /// The local APICs, by the index of their vCPU.
    pub lapics: &'s [Lapic],
    /// The I/O APIC's pins: redirection entries and resamplefds.
    pub pins: &'s Pins,
    /// The I/O APIC's input lines: sources and remote IRR.
    pub lines: &'s Lines,
    /// The counts of events on the monitor's side.
    pub events: &'s EventCounts,
    /// Notifies a vCPU of a request, and returns how.
    tell: &'s dyn Fn(usize) -> Tell,
    told: Cell<Option<(usize, Tell)>>,
}

impl<'s> Apics<'s> {
    /// The irqchip memory of one guest. `tell` notifies a vCPU of a request that it may not have seen.
    pub fn new(
        lapics: &'s [Lapic],
        pins: &'s Pins,
        lines: &'s Lines,
        events: &'s EventCounts,
        tell: &'s dyn Fn(usize) -> Tell,
    ) -> Self {
        Self {
            lapics,
            pins,
            lines,
            events,
            tell,
            told: Cell::new(None),
        }
    }

    /// The pin with this number and its line; `None` if there is no such pin.
    pub fn pin_line(&self, pin: u8) -> Option<PinLine<'s>> {
        PinLine::new(self.pins, self.lines, pin)
    }

    /// Delivers a message, and says whether a local APIC took it.
    pub fn deliver(&self, message: Message) -> bool {
        let raise = message.deliver(self.lapics.iter(), |vcpu| {
            self.events.count(Event::ApicAcceptIrq);
            self.told.set(Some((vcpu, (self.tell)(vcpu))));
        });
        raise != Raise::Refused
    }

    /// Sends an MSI, and says whether a local APIC took it.
    pub fn signal_msi(&self, msi: Msi) -> Result<bool, IrqError> {
        self.events.count(Event::MsiSetIrq);
        Ok(self.deliver(msi.message()?))
    }

    /// The vCPU that was notified last, and how; `None` if none was.
    pub fn told(&self) -> Option<(usize, Tell)> {
        self.told.get()
    }
}
