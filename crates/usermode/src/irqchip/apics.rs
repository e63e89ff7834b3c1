//! Access to the part of a guest's irqchip in memory that monitor and sandbox both map (local APICs, pins and lines),
//! and the notification of vCPUs.
//!
//! A thread that raises or ends an interrupt makes an [`Apics`] for that call. Local APICs accept messages without a
//! lock.

use std::cell::Cell;

use vmbell::irq::{IrqError, Msi};
use vmbell_core::event::{Event, EventCounts};
use vmbell_core::ioapic::{Lines, PinLine, Pins};
use vmbell_core::lapic::{Lapic, Message, Raise};
use vmbell_core::vcpu_mode::Notification;

use super::messages;

/// Notifies vCPUs of requests that they may not have seen.
pub trait NotifyVcpu {
    /// Notifies the vCPU with this index, and returns how it was notified.
    fn notify(&self, vcpu: usize) -> Notification;
}

impl<F: Fn(usize) -> Notification> NotifyVcpu for F {
    fn notify(&self, vcpu: usize) -> Notification {
        self(vcpu)
    }
}

/// Local APICs, pins and lines of a guest, and the way to notify its vCPUs of requests.
pub struct Apics<'s> {
    /// The local APICs, by the index of their vCPU.
    pub lapics: &'s [Lapic],
    /// The I/O APIC's pins: redirection entries and resamplefds.
    pub pins: &'s Pins,
    /// The I/O APIC's input lines: sources and remote IRR.
    pub lines: &'s Lines,
    /// The counts of events on the monitor's side.
    pub events: &'s EventCounts,
    /// Notifies a vCPU of a request, and returns how it was notified.
    notify: &'s dyn NotifyVcpu,
    last_notified: Cell<Option<(usize, Notification)>>,
}

impl<'s> Apics<'s> {
    /// Makes the access to a guest's irqchip. `notify` notifies a vCPU of a request that it may not have seen.
    pub fn new(
        lapics: &'s [Lapic],
        pins: &'s Pins,
        lines: &'s Lines,
        events: &'s EventCounts,
        notify: &'s dyn NotifyVcpu,
    ) -> Self {
        Self {
            lapics,
            pins,
            lines,
            events,
            notify,
            last_notified: Cell::new(None),
        }
    }

    /// Returns the pin with this number and its line; `None` if there is no such pin.
    pub fn pin_line(&self, pin: u8) -> Option<PinLine<'s>> {
        PinLine::new(self.pins, self.lines, pin)
    }

    /// Delivers a message, and returns whether a local APIC accepted it.
    pub fn deliver(&self, message: Message) -> bool {
        let raise = message.deliver(self.lapics.iter(), |vcpu| {
            self.events.count(Event::ApicAcceptIrq);
            self.last_notified
                .set(Some((vcpu, self.notify.notify(vcpu))));
        });
        raise != Raise::Refused
    }

    /// Counts that a pin's level is set.
    pub fn count_line(&self) {
        self.events.count(Event::SetIrq);
        self.events.count(Event::IoapicSetIrq);
    }

    /// If a line has another interrupt while its guest could end the current interrupt without an exit, makes the vCPUs
    /// that have the current interrupt leave the guest.
    pub fn end_deferral(&self, pin_line: PinLine<'_>) {
        if pin_line.needs_exit() {
            let vector = pin_line.pin.entry().vector();
            let taken = |(_, lapic): &(usize, &Lapic)| lapic.is_in_service(vector);
            for (vcpu, _) in self.lapics.iter().enumerate().filter(taken) {
                let _ = self.notify.notify(vcpu);
            }
        }
    }

    /// Sends an MSI, and returns whether a local APIC accepted it.
    pub fn signal_msi(&self, msi: Msi) -> Result<bool, IrqError> {
        self.events.count(Event::MsiSetIrq);
        Ok(self.deliver(messages::decode_msi(msi)?))
    }

    /// Returns the vCPU that was notified last, and how; `None` if no vCPU was.
    pub fn last_notified(&self) -> Option<(usize, Notification)> {
        self.last_notified.get()
    }
}
