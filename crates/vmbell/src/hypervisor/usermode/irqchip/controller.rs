//! What of a guest's irqchip only the monitor has: routes, irqfds and the I/O APIC's registers, and the way
//! back from an EOI to the resamplefds.
//!
//! It runs under the owner's lock, on whichever thread raises an interrupt or ends one. The rules for irqfds are
//! those of Linux `virt/kvm/eventfd.c`, `kvm_irqfd_assign` and `kvm_irqfd_deassign`: an eventfd is at most one
//! irqfd of a guest, the GSI need lead nowhere, and removing what is not there is no error.

use std::collections::HashMap;
use std::sync::Arc;

use stub::event::Event;
use stub::ioapic::{EndOfInterrupt, Pin, Source, end};
use stub::lapic::Message;

use super::apics::Apics;
use super::eoi_exit_bitmap;
use super::ioapic::{Change, IoApic};
use super::resampler::Resampler;
use crate::eventfd::EventId;
use crate::irq::{Gsi, IrqError, Route, Routing, Target};

/// Routes, irqfds and the I/O APIC.
#[derive(Debug)]
pub struct Controller {
    routing: Routing,
    irqfds: HashMap<EventId, Irqfd>,
    /// Present if the I/O APIC is below the VMM.
    ioapic: Option<IoApic>,
}

/// An eventfd that raises a GSI.
#[derive(Debug)]
pub struct Irqfd {
    /// The GSI that a signal raises.
    pub gsi: Gsi,
    /// What the ack signals, if the line is resampled: a signal raises a level then, else an edge.
    pub resampler: Option<Arc<Resampler>>,
}

impl Controller {
    /// With an I/O APIC, each GSI below 24 leads to its pin.
    pub fn full(apics: &Apics<'_>) -> Self {
        Self {
            routing: Routing::identity(),
            irqfds: HashMap::new(),
            ioapic: Some(IoApic::reset(apics)),
        }
    }

    /// With local APICs only; no GSI leads anywhere.
    pub fn split() -> Self {
        Self {
            routing: Routing::default(),
            irqfds: HashMap::new(),
            ioapic: None,
        }
    }

    /// Replaces the routes.
    pub fn set_routing(&mut self, routes: &[Route], apics: &Apics<'_>) -> Result<(), IrqError> {
        let routing = Routing::new(routes)?;
        if self.ioapic.is_none() {
            routing.check_without_pins()?;
        }
        self.routing = routing;
        self.scan(apics);
        Ok(())
    }

    /// Adds an irqfd.
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
        self.irqfds.insert(event, irqfd);
        if is_resampled {
            self.scan(apics);
        }
        Ok(())
    }

    /// Removes an irqfd; none if there was none with this eventfd and GSI. The last resampling one of a GSI takes the line that
    /// it holds down with it. Its resamplefd may be signalled by an EOI that has begun before.
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

    /// Whether an eventfd is an irqfd.
    pub fn is_assigned(&self, event: EventId) -> bool {
        self.irqfds.contains_key(&event)
    }

    /// An irqfd was signalled: up until the ack if it is resampled, else up and down.
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

    /// Drives a GSI. A message is sent on the way up; a GSI that leads nowhere does nothing.
    pub fn set_line(&self, gsi: Gsi, source: Source, up: bool, apics: &Apics<'_>) {
        match self.routing.target(gsi) {
            Some(Target::Msi(msi)) if up => {
                // The table's messages are checked: there is no error.
                let _ = apics.signal_msi(msi);
            }
            Some(Target::Pin(pin)) => self.set_pin(pin, source, up, apics),
            _ => {}
        }
    }

    fn set_pin(&self, pin: u8, source: Source, up: bool, apics: &Apics<'_>) {
        let (true, Some(wire)) = (self.ioapic.is_some(), apics.wire(pin)) else {
            return;
        };
        apics.events.count(Event::SetIrq);
        apics.events.count(Event::IoapicSetIrq);
        wire.drive(source, up, |message| apics.deliver(message));
    }

    /// The EOI of a vector some pin of which has more resamplefds than the stub signals by itself. Gives
    /// all those whose ack it is; they are signalled without the lock that this runs under.
    pub fn eoi(&self, vector: u8, apics: &Apics<'_>) -> Vec<Arc<Resampler>> {
        let mut ending = Ending {
            controller: self,
            apics,
            acked: Vec::new(),
        };
        end(apics.pins, apics.lines, vector, &mut ending);
        ending.acked
    }

    /// Whom the ack of a pin signals.
    fn resamplers(&self, pin: u8) -> impl Iterator<Item = &Arc<Resampler>> {
        let leads = move |gsi| self.routing.target(gsi) == Some(Target::Pin(pin));
        let all = self.resampled();
        all.filter_map(move |(gsi, resampler)| leads(gsi).then_some(resampler))
    }

    /// The GSI of each resampled irqfd, and what the ack of that signals.
    fn resampled(&self) -> impl Iterator<Item = (Gsi, &Arc<Resampler>)> {
        let irqfds = self.irqfds.values();
        irqfds.filter_map(|irqfd| Some((irqfd.gsi, irqfd.resampler.as_ref()?)))
    }

    /// Tells each pin its resamplefds, and each local APIC which EOIs the guest must not be spared.
    fn scan(&self, apics: &Apics<'_>) {
        for (number, pin) in (0_u8..).zip(apics.pins) {
            let resamplers = self.resamplers(number);
            let descriptors: Vec<_> = resamplers.map(|one| one.descriptor()).collect();
            pin.set_resamplers(&descriptors);
        }
        eoi_exit_bitmap::scan(&self.routing, apics);
    }

    /// A load from the I/O APIC; none if there is none here.
    pub fn read_ioapic(&self, offset: u64, apics: &Apics<'_>) -> Option<u32> {
        let ioapic = self.ioapic.as_ref();
        ioapic.map(|ioapic| ioapic.read(offset, apics))
    }

    /// A store to the I/O APIC; none if there is none here. Gives the resamplefds that are to be
    /// signalled, without the lock that this runs under.
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
            // The line may be up only because nobody has asked the device since it was masked.
            self.set_pin(pin, Source::Resample, false, apics);
        } else if let Some(wire) = apics.wire(pin) {
            wire.send_level(|message| apics.deliver(message));
        }
        Some(acked)
    }
}

/// The monitor's part of an end of interrupt.
struct Ending<'c, 's> {
    controller: &'c Controller,
    apics: &'c Apics<'s>,
    acked: Vec<Arc<Resampler>>,
}

impl EndOfInterrupt for Ending<'_, '_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.apics.deliver(message)
    }

    fn resample(&mut self, number: u8, _pin: &Pin) {
        let acked = self.controller.resamplers(number);
        self.acked.extend(acked.cloned());
    }

    fn note(&mut self, event: Event) {
        self.apics.events.count(event);
    }
}
