//! The part of an irqchip that lies beside the guest, in memory that its sandbox has too.
//!
//! Whoever raises or ends an interrupt makes one for its call, on its own thread. Local APICs take what is
//! sent with no lock.

use std::cell::Cell;

use stub::event::{Event, EventCounts};
use stub::ioapic::{Lines, Pins, Wire};
use stub::lapic::{Lapic, Message, Raise};
use stub::presence::Tell;

use crate::irq::{IrqError, Msi};

/// Local APICs, pins and lines, and how vCPUs are told what their local APICs take.
pub struct Apics<'s> {
    /// The local APICs, by the index of their vCPU.
    pub lapics: &'s [Lapic],
    /// What the I/O APIC's pins send.
    pub pins: &'s Pins,
    /// How its lines stand.
    pub lines: &'s Lines,
    /// What happens on the monitor's side.
    pub events: &'s EventCounts,
    /// Tells a vCPU that it has got a request, and says how.
    tell: &'s dyn Fn(usize) -> Tell,
    told: Cell<Option<(usize, Tell)>>,
}

impl<'s> Apics<'s> {
    /// Those of one guest; `tell` tells a vCPU that it has got a request, which it may not have seen.
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

    /// A pin with its line; none beyond the last.
    pub fn wire(&self, pin: u8) -> Option<Wire<'s>> {
        Wire::new(self.pins, self.lines, pin)
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

    /// The vCPU that was told last, and how.
    pub fn told(&self) -> Option<(usize, Tell)> {
        self.told.get()
    }
}
