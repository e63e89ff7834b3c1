//! The part of a guest's irqchip that only the monitor has ([`Controller`]): routes, irqfds, the I/O APIC's
//! registers, and the acks of EOIs to the resamplefds; and its access to the part in memory that monitor and
//! sandbox both map ([`Apics`]): local APICs, pins and lines.
//!
//! It runs on the thread that raises or ends an interrupt, which makes an `Apics` for that call. The controller
//! runs under its owner's lock; local APICs accept messages without one. The rules for irqfds are
//! those of Linux `virt/kvm/eventfd.c`, `kvm_irqfd_assign` and `kvm_irqfd_deassign`: an eventfd is at most one
//! irqfd of a guest, the GSI of an irqfd need not have a route, and removing an irqfd that does not exist is no
//! error.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stub::event::{Event, EventCounts};
use stub::ioapic::{EoiActions, Lines, Pin, PinLine, Pins, Source, eoi_pins};
use stub::lapic::{Lapic, Message, Raise};
use stub::vcpu_mode::Notification;
use vmbell::eventfd::EventId;
use vmbell::irq::{Gsi, IrqError, Msi, Route, Routing, Target};

use super::ioapic::{Change, IoApic};
use super::messages;
use super::resampler::Resampler;

/// Routes, irqfds and the I/O APIC.
#[derive(Debug)]
pub struct Controller {
    pub(super) routing: Routing,
    irqfds: HashMap<EventId, Irqfd>,
    /// The GSIs whose lines are forwarded.
    pub(super) forwarded: HashSet<Gsi>,
    /// The I/O APIC; `None` if the VMM emulates it (split irqchip).
    ioapic: Option<IoApic>,
}

/// An irqfd: its GSI and its resamplefd.
#[derive(Debug)]
pub struct Irqfd {
    /// The GSI that a signal raises.
    pub gsi: Gsi,
    /// The resamplefd, if there is one. With it a signal raises the line until the ack; without it a signal is
    /// an edge.
    pub resampler: Option<Arc<Resampler>>,
}

impl Controller {
    /// A full irqchip: with an I/O APIC, and each GSI below 24 leads to the pin of the same number.
    pub fn full(apics: &Apics<'_>) -> Self {
        Self {
            routing: Routing::identity(),
            irqfds: HashMap::new(),
            forwarded: HashSet::new(),
            ioapic: Some(IoApic::reset(apics)),
        }
    }

    /// A split irqchip: local APICs only, and no GSI has a route.
    pub fn split() -> Self {
        Self {
            routing: Routing::default(),
            irqfds: HashMap::new(),
            forwarded: HashSet::new(),
            ioapic: None,
        }
    }

    /// Replaces the routes. Refuses a wrong table, and routes to pins if there is no I/O APIC here.
    pub fn set_routing(&mut self, routes: &[Route], apics: &Apics<'_>) -> Result<(), IrqError> {
        let routing = Routing::new(routes)?;
        if self.ioapic.is_none() {
            routing.check_without_pins()?;
        }
        self.routing = routing;
        self.scan(apics);
        Ok(())
    }

    /// Adds an irqfd. Refuses an eventfd that is an irqfd already, and a resamplefd if there is no I/O APIC
    /// here.
    pub fn assign(
        &mut self,
        event: EventId,
        irqfd: Irqfd,
        apics: &Apics<'_>,
    ) -> Result<(), IrqError> {
        let is_resampled = irqfd.resampler.is_some();
        if is_resampled && self.ioapic.is_none() {
            return Err(IrqError::NoResample);
        }
        if self.irqfds.contains_key(&event) {
            return Err(IrqError::Busy);
        }
        if is_resampled && self.forwarded.contains(&irqfd.gsi) {
            return Err(IrqError::Forwarded { gsi: irqfd.gsi });
        }
        self.irqfds.insert(event, irqfd);
        if is_resampled {
            self.scan(apics);
        }
        Ok(())
    }

    /// Removes an irqfd; `None` if no irqfd has this eventfd and GSI. When the last resampling irqfd of a GSI
    /// is removed, these irqfds no longer hold the line up. An EOI that began before may still signal the
    /// resamplefd.
    pub fn deassign(&mut self, event: EventId, gsi: Gsi, apics: &Apics<'_>) -> Option<Irqfd> {
        self.irqfds.get(&event).filter(|irqfd| irqfd.gsi == gsi)?;
        let removed = self.irqfds.remove(&event)?;
        if removed.resampler.is_some() {
            if self.resampled().all(|(other, _)| other != gsi) {
                self.set_line(gsi, Source::Resample, false, apics);
            }
            self.scan(apics);
        }
        Some(removed)
    }

    /// Whether the eventfd is an irqfd of this guest.
    pub fn is_assigned(&self, event: EventId) -> bool {
        self.irqfds.contains_key(&event)
    }

    /// Raises the GSI of an irqfd that was signalled: with a resamplefd the line stays up until the ack, else
    /// it goes up and down.
    pub fn signal(&self, event: EventId, apics: &Apics<'_>) {
        let Some(irqfd) = self.irqfds.get(&event) else {
            return;
        };
        if irqfd.resampler.is_some() {
            self.set_line(irqfd.gsi, Source::Resample, true, apics);
        } else {
            self.set_line(irqfd.gsi, Source::User, true, apics);
            self.set_line(irqfd.gsi, Source::User, false, apics);
        }
    }

    /// Sets the level of a GSI for one source. A message is sent when the level goes up; a GSI without a route
    /// does nothing.
    pub fn set_line(&self, gsi: Gsi, source: Source, up: bool, apics: &Apics<'_>) {
        match self.routing.target(gsi) {
            Some(Target::Msi(msi)) if up => {
                // The messages of the table were checked when it was set, so there is no error.
                let _ = apics.signal_msi(msi);
            }
            Some(Target::Pin(pin)) => self.set_pin(pin, source, up, apics),
            _ => {}
        }
    }

    fn set_pin(&self, pin: u8, source: Source, up: bool, apics: &Apics<'_>) {
        let (true, Some(pin_line)) = (self.ioapic.is_some(), apics.pin_line(pin)) else {
            return;
        };
        apics.count_line();
        pin_line.drive(source, up, |message| apics.deliver(message));
        apics.end_deferral(pin_line);
    }

    /// The EOI of a vector, some pin of which has more resamplefds than the stub can signal. Returns all
    /// resamplefds that it acks; the caller signals them after it has released the controller's lock.
    pub fn eoi(&self, vector: u8, apics: &Apics<'_>) -> Vec<Arc<Resampler>> {
        let mut eoi = MonitorEoi {
            controller: self,
            apics,
            acked: Vec::new(),
        };
        eoi_pins(apics.pins, apics.lines, vector, &mut eoi);
        eoi.acked
    }

    /// The resamplefds that the ack of a pin signals.
    fn resamplers(&self, pin: u8) -> impl Iterator<Item = &Arc<Resampler>> {
        let leads = move |gsi| self.routing.target(gsi) == Some(Target::Pin(pin));
        let all = self.resampled();
        all.filter_map(move |(gsi, resampler)| leads(gsi).then_some(resampler))
    }

    /// The GSI and the resamplefd of each resampling irqfd.
    pub(super) fn resampled(&self) -> impl Iterator<Item = (Gsi, &Arc<Resampler>)> {
        let irqfds = self.irqfds.values();
        irqfds.filter_map(|irqfd| Some((irqfd.gsi, irqfd.resampler.as_ref()?)))
    }

    /// Stores the resamplefds of each pin, and fills the EOI exit bitmap of each local APIC.
    pub(super) fn scan(&self, apics: &Apics<'_>) {
        for (number, pin) in (0_u8..).zip(apics.pins) {
            let resamplers = self.resamplers(number);
            let descriptors: Vec<_> = resamplers.map(|one| one.descriptor()).collect();
            pin.set_resamplefds(&descriptors);
            let leads = |gsi: &Gsi| self.routing.target(*gsi) == Some(Target::Pin(number));
            pin.set_forwarded(self.forwarded.iter().any(leads));
        }
        messages::scan_eoi_exit_bitmaps(&self.routing, apics);
    }

    /// A load from the I/O APIC; `None` if there is no I/O APIC here.
    pub fn read_ioapic(&self, offset: u64, apics: &Apics<'_>) -> Option<u32> {
        let ioapic = self.ioapic.as_ref();
        ioapic.map(|ioapic| ioapic.read(offset, apics))
    }

    /// A store to the I/O APIC; `None` if there is no I/O APIC here. Returns the resamplefds that the caller
    /// signals after it has released the controller's lock.
    pub fn write_ioapic(
        &mut self,
        offset: u64,
        value: u32,
        apics: &Apics<'_>,
    ) -> Option<Vec<Arc<Resampler>>> {
        let change = self.ioapic.as_mut()?.write(offset, value, apics);
        if change != Change::None {
            self.scan(apics);
        }
        let Change::Pending(pin) = change else {
            return Some(Vec::new());
        };
        let acked: Vec<_> = self.resamplers(pin).cloned().collect();
        if !acked.is_empty() {
            // The line may be up only because the device was not asked while the pin was masked.
            self.set_pin(pin, Source::Resample, false, apics);
        } else if let Some(pin_line) = apics.pin_line(pin) {
            pin_line.send_level(|message| apics.deliver(message));
        }
        Some(acked)
    }
}

/// The monitor's side of an EOI; it collects the resamplefds that the EOI acks.
struct MonitorEoi<'c, 's> {
    controller: &'c Controller,
    apics: &'c Apics<'s>,
    acked: Vec<Arc<Resampler>>,
}

impl EoiActions for MonitorEoi<'_, '_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.apics.deliver(message)
    }

    fn resample(&mut self, number: u8, _pin: &Pin) {
        let acked = self.controller.resamplers(number);
        self.acked.extend(acked.cloned());
    }

    fn count(&mut self, event: Event) {
        self.apics.events.count(event);
    }
}

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
    notify: &'s dyn Fn(usize) -> Notification,
    last_notified: Cell<Option<(usize, Notification)>>,
}

impl<'s> Apics<'s> {
    /// The irqchip memory of one guest. `notify` notifies a vCPU of a request that it may not have seen.
    pub fn new(
        lapics: &'s [Lapic],
        pins: &'s Pins,
        lines: &'s Lines,
        events: &'s EventCounts,
        notify: &'s dyn Fn(usize) -> Notification,
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

    /// The pin with this number and its line; `None` if there is no such pin.
    pub fn pin_line(&self, pin: u8) -> Option<PinLine<'s>> {
        PinLine::new(self.pins, self.lines, pin)
    }

    /// Delivers a message, and says whether a local APIC took it.
    pub fn deliver(&self, message: Message) -> bool {
        let raise = message.deliver(self.lapics.iter(), |vcpu| {
            self.events.count(Event::ApicAcceptIrq);
            self.last_notified.set(Some((vcpu, (self.notify)(vcpu))));
        });
        raise != Raise::Refused
    }

    /// Counts that a pin is driven.
    pub fn count_line(&self) {
        self.events.count(Event::SetIrq);
        self.events.count(Event::IoapicSetIrq);
    }

    /// If a line has another interrupt while its guest may end the present one without an exit, makes the vCPUs with
    /// that one leave the guest.
    pub fn end_deferral(&self, pin_line: PinLine<'_>) {
        if pin_line.needs_exit() {
            let vector = pin_line.pin.entry().vector();
            let taken = |(_, lapic): &(usize, &Lapic)| lapic.is_in_service(vector);
            for (vcpu, _) in self.lapics.iter().enumerate().filter(taken) {
                let _ = (self.notify)(vcpu);
            }
        }
    }

    /// Sends an MSI, and says whether a local APIC took it.
    pub fn signal_msi(&self, msi: Msi) -> Result<bool, IrqError> {
        self.events.count(Event::MsiSetIrq);
        Ok(self.deliver(messages::decode_msi(msi)?))
    }

    /// The vCPU that was notified last, and how; `None` if none was.
    pub fn last_notified(&self) -> Option<(usize, Notification)> {
        self.last_notified.get()
    }
}
