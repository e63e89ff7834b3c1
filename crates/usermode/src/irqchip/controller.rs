//! The part of a guest's irqchip that only the monitor has ([`ControllerState`]): routes, irqfds, forwarded lines, the
//! I/O APIC's registers, and the acks of EOIs to the resamplefds. It also accesses the part in memory that monitor and
//! sandbox both map ([`Apics`]): local APICs, pins and lines. A [`Controller`] has both parts, under the lock.
//!
//! Runs on the thread that raises or ends an interrupt, which makes a `Controller` for that call; local APICs accept
//! messages without a `Controller`. The rules for irqfds are those of Linux `virt/kvm/eventfd.c`, `kvm_irqfd_assign`
//! and `kvm_irqfd_deassign`: an eventfd is at most one irqfd of a guest, the GSI of an irqfd need not have a route, and
//! removing an irqfd that does not exist is not an error. [`vmbell_core::ioapic`] has the rules of forwarded lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use vmbell::eventfd::EventId;
use vmbell::irq::{Gsi, IrqArch, IrqError, Route, Routing, Target};
use vmbell::sync::MutexGuard;
use vmbell_core::event::Event;
use vmbell_core::ioapic::{EoiActions, Pin, PinLine, Source, eoi_pins};
use vmbell_core::lapic::Message;

use super::apics::Apics;
use super::ioapic::{IoApic, StoreEffect};
use super::irqfd::{Irqfd, Resampler};
use super::messages;

/// Routes, irqfds and the I/O APIC.
#[derive(Debug)]
pub struct ControllerState {
    routing: Routing,
    irqfds: HashMap<EventId, Irqfd>,
    /// The GSIs whose lines are forwarded.
    forwarded: HashSet<Gsi>,
    /// The I/O APIC; `None` if the VMM emulates it (split irqchip).
    ioapic: Option<IoApic>,
}

impl ControllerState {
    /// Makes a full irqchip: it has an I/O APIC, and each GSI below 24 leads to the pin with the same number.
    pub fn full(apics: &Apics<'_>) -> Self {
        Self {
            routing: Routing::identity(IrqArch::X86_64),
            irqfds: HashMap::new(),
            forwarded: HashSet::new(),
            ioapic: Some(IoApic::reset(apics)),
        }
    }

    /// Makes a split irqchip: local APICs only, and no GSI has a route.
    pub fn split() -> Self {
        Self {
            routing: Routing::default(),
            irqfds: HashMap::new(),
            forwarded: HashSet::new(),
            ioapic: None,
        }
    }
}

/// The locked controller of a guest, with its access to local APICs, pins and lines.
pub struct Controller<'s> {
    state: MutexGuard<'s, ControllerState>,
    apics: Apics<'s>,
}

impl<'s> Controller<'s> {
    /// Makes a controller from the locked state and the irqchip memory of its guest.
    pub const fn new(state: MutexGuard<'s, ControllerState>, apics: Apics<'s>) -> Self {
        Self { state, apics }
    }

    /// Returns the access to local APICs, pins and lines.
    pub const fn apics(&self) -> &Apics<'s> {
        &self.apics
    }

    /// Replaces the routes. Refuses an invalid table, and routes to pins if there is no I/O APIC here.
    pub fn set_routing(&mut self, routes: &[Route]) -> Result<(), IrqError> {
        let routing = Routing::new(routes, IrqArch::X86_64)?;
        if self.state.ioapic.is_none() {
            routing.check_without_pins()?;
        }
        self.state.routing = routing;
        self.scan();
        Ok(())
    }

    /// Adds an irqfd. Refuses an eventfd that is already an irqfd, and a resamplefd if there is no I/O APIC here.
    pub fn assign(&mut self, event: EventId, irqfd: Irqfd) -> Result<(), IrqError> {
        let is_resampled = irqfd.resampler.is_some();
        if is_resampled && self.state.ioapic.is_none() {
            return Err(IrqError::NoResample);
        }
        if self.state.irqfds.contains_key(&event) {
            return Err(IrqError::Busy);
        }
        if is_resampled && self.state.forwarded.contains(&irqfd.gsi) {
            return Err(IrqError::Forwarded { gsi: irqfd.gsi });
        }
        self.state.irqfds.insert(event, irqfd);
        if is_resampled {
            self.scan();
        }
        Ok(())
    }

    /// Removes an irqfd; returns `None` if no irqfd has this eventfd and GSI. When the last resampling irqfd of a GSI
    /// is removed, the irqfds no longer hold the line up. An EOI that began before may still signal the resamplefd.
    pub fn deassign(&mut self, event: EventId, gsi: Gsi) -> Option<Irqfd> {
        self.state
            .irqfds
            .get(&event)
            .filter(|irqfd| irqfd.gsi == gsi)?;
        let removed = self.state.irqfds.remove(&event)?;
        if removed.resampler.is_some() {
            if self.resampled().all(|(other, _)| other != gsi) {
                self.set_line(gsi, Source::Resample, false);
            }
            self.scan();
        }
        Some(removed)
    }

    /// Returns whether the eventfd is an irqfd of this guest.
    pub fn is_assigned(&self, event: EventId) -> bool {
        self.state.irqfds.contains_key(&event)
    }

    /// Raises the GSI of an irqfd that was signalled: with a resamplefd the line stays up until the ack; otherwise it
    /// goes up and down.
    pub fn signal(&self, event: EventId) {
        let Some(irqfd) = self.state.irqfds.get(&event) else {
            return;
        };
        if irqfd.resampler.is_some() {
            self.set_line(irqfd.gsi, Source::Resample, true);
        } else {
            self.set_line(irqfd.gsi, Source::User, true);
            self.set_line(irqfd.gsi, Source::User, false);
        }
    }

    /// Sets the level of a GSI for one source. If the GSI's route is a message, it is sent when the level goes up. A
    /// GSI without a route does nothing.
    pub fn set_line(&self, gsi: Gsi, source: Source, up: bool) {
        match self.state.routing.target(gsi) {
            Some(Target::Msi(msi)) if up => {
                // The messages of the table were checked when it was set, so this cannot fail.
                let _ = self.apics.signal_msi(msi);
            }
            Some(Target::Pin(pin)) => self.set_pin(pin, source, up),
            _ => {}
        }
    }

    fn set_pin(&self, pin: u8, source: Source, up: bool) {
        let (true, Some(pin_line)) = (self.state.ioapic.is_some(), self.apics.pin_line(pin)) else {
            return;
        };
        self.apics.count_line();
        pin_line.drive(source, up, |message| self.apics.deliver(message));
        self.apics.end_deferral(pin_line);
    }

    /// Handles the EOI of a vector if a pin with that vector has more resamplefds than the stub can signal. Returns all
    /// resamplefds that it acks; the caller signals them after it has released the controller's lock.
    pub fn eoi(&self, vector: u8) -> Vec<Arc<Resampler>> {
        let mut eoi = MonitorEoi {
            controller: self,
            acked: Vec::new(),
        };
        eoi_pins(self.apics.pins, self.apics.lines, vector, &mut eoi);
        eoi.acked
    }

    /// Returns the resamplefds that the ack of a pin signals.
    fn resamplers(&self, pin: u8) -> impl Iterator<Item = &Arc<Resampler>> {
        let leads = move |gsi| self.state.routing.target(gsi) == Some(Target::Pin(pin));
        let all = self.resampled();
        all.filter_map(move |(gsi, resampler)| leads(gsi).then_some(resampler))
    }

    /// Returns the GSI and the resamplefd of each resampling irqfd.
    pub(super) fn resampled(&self) -> impl Iterator<Item = (Gsi, &Arc<Resampler>)> {
        let irqfds = self.state.irqfds.values();
        irqfds.filter_map(|irqfd| Some((irqfd.gsi, irqfd.resampler.as_ref()?)))
    }

    /// Stores the resamplefds of each pin, and fills the EOI exit bitmap of each local APIC.
    pub(super) fn scan(&self) {
        for (number, pin) in (0_u8..).zip(self.apics.pins) {
            let resamplers = self.resamplers(number);
            let descriptors: Vec<_> = resamplers.map(|one| one.descriptor()).collect();
            pin.set_resamplefds(&descriptors);
            let leads = |gsi: &Gsi| self.state.routing.target(*gsi) == Some(Target::Pin(number));
            pin.set_forwarded(self.state.forwarded.iter().any(leads));
        }
        let Apics { lapics, pins, .. } = self.apics;
        messages::scan_eoi_exit_bitmaps(lapics, pins, &self.state.routing);
    }

    /// Handles a load from the I/O APIC; returns `None` if there is no I/O APIC here.
    pub fn read_ioapic(&self, offset: u64) -> Option<u32> {
        let ioapic = self.state.ioapic.as_ref();
        ioapic.map(|ioapic| ioapic.read(offset, &self.apics))
    }

    /// Handles a store to the I/O APIC; returns `None` if there is no I/O APIC here. Otherwise returns the resamplefds
    /// that the caller signals after it has released the controller's lock.
    pub fn write_ioapic(&mut self, offset: u64, value: u32) -> Option<Vec<Arc<Resampler>>> {
        let effect = self
            .state
            .ioapic
            .as_mut()?
            .write(offset, value, &self.apics);
        if effect != StoreEffect::None {
            self.scan();
        }
        let StoreEffect::Pending(pin) = effect else {
            return Some(Vec::new());
        };
        let acked: Vec<_> = self.resamplers(pin).cloned().collect();
        if !acked.is_empty() {
            // The line may be up only because the device was not notified while the pin was masked.
            self.set_pin(pin, Source::Resample, false);
        } else if let Some(pin_line) = self.apics.pin_line(pin) {
            pin_line.send_level(|message| self.apics.deliver(message));
        }
        Some(acked)
    }

    /// Forwards a line.
    pub fn forward_line(&mut self, gsi: Gsi) -> Result<(), IrqError> {
        let pin_line = self.line_of(gsi).ok_or(IrqError::NoLine { gsi })?;
        if pin_line.pin.entry().sends_edges() {
            return Err(IrqError::Edge { gsi });
        }
        if self.resampled().any(|(other, _)| other == gsi) {
            return Err(IrqError::Resampled { gsi });
        }
        if !self.state.forwarded.insert(gsi) {
            return Err(IrqError::Forwarded { gsi });
        }
        self.scan();
        Ok(())
    }

    /// Stops forwarding a line. A vCPU that could end the current interrupt without an exit is first made to leave the
    /// guest.
    pub fn unforward_line(&mut self, gsi: Gsi) {
        if !self.state.forwarded.remove(&gsi) {
            return;
        }
        self.scan();
        if let Some(pin_line) = self.line_of(gsi) {
            self.apics.end_deferral(pin_line);
        }
    }

    /// Called when the owner raises the line. If the GSI now leads to a message, the message is sent.
    pub fn raise_forwarded(&self, gsi: Gsi) {
        if !self.state.forwarded.contains(&gsi) {
            return;
        }
        if let Some(pin_line) = self.line_of(gsi) {
            self.apics.count_line();
            pin_line.raise(|message| self.apics.deliver(message));
            self.apics.end_deferral(pin_line);
        } else if let Some(Target::Msi(msi)) = self.state.routing.target(gsi) {
            // The messages of the table were checked when it was set, so this cannot fail.
            let _ = self.apics.signal_msi(msi);
        }
    }

    /// Returns whether all interrupts of the line have ended. `ended_by_bit` returns whether a guest has ended a vector
    /// by its PV EOI bit.
    pub fn has_ended(&self, gsi: Gsi, ended_by_bit: impl FnOnce(u8) -> bool) -> bool {
        let pin_line = self.line_of(gsi);
        pin_line.is_none_or(|pin_line| pin_line.has_ended(ended_by_bit))
    }

    /// Returns the pin that a GSI leads to.
    fn line_of(&self, gsi: Gsi) -> Option<PinLine<'s>> {
        match self.state.routing.target(gsi)? {
            Target::Pin(pin) => self.apics.pin_line(pin),
            Target::Msi(_) => None,
        }
    }
}

/// The monitor's side of an EOI; it collects the resamplefds that the EOI acks.
struct MonitorEoi<'c, 's> {
    controller: &'c Controller<'s>,
    acked: Vec<Arc<Resampler>>,
}

impl EoiActions for MonitorEoi<'_, '_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.controller.apics.deliver(message)
    }

    fn resample(&mut self, number: u8, _pin: &Pin) {
        let acked = self.controller.resamplers(number);
        self.acked.extend(acked.cloned());
    }

    fn count(&mut self, event: Event) {
        self.controller.apics.events.count(event);
    }
}
