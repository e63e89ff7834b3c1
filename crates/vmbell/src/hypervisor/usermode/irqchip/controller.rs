//! A guest's interrupt controllers as whoever raises interrupts sees them: routes, the I/O APIC's
//! lines, irqfds, and the way back from an EOI to those who wait for it.
//!
//! For backends whose interrupt controllers are not the kernel's. It runs under the owner's lock, on
//! whichever thread raises an interrupt or ends one; local APICs take what it sends with no lock.

use stub::event::Event;
use stub::ioapic::{EndOfInterrupt, Lines, Pin, Pins, Source, Wire, end};
use stub::lapic::{Lapic, Message, Raise};

use super::ioapic::{Change, IoApic};
use super::irqfd::{Irqfd, Irqfds, Trigger};
use crate::eventfd::EventId;
use crate::irq::{Gsi, IrqError, Msi, Route, Routing, Target};

/// The parts of a guest's interrupt controllers that run beside the guest.
pub trait LocalApics {
    /// The local APICs, by the index of their vCPU.
    fn lapics(&self) -> impl Iterator<Item = &Lapic> + Clone;
    /// What the I/O APIC's pins send.
    fn pins(&self) -> &Pins;
    /// How its lines stand.
    fn lines(&self) -> &Lines;
    /// A vCPU has got a request that it may not have seen.
    fn wake(&self, vcpu: usize);
    /// Something has happened that somebody may count.
    fn note(&self, _event: Event) {}

    /// A pin with its line; none beyond the last.
    fn wire(&self, pin: u8) -> Option<Wire<'_>> {
        Wire::new(self.pins(), self.lines(), pin)
    }
}

/// What the EOI of a line signals.
pub trait Resample: Clone {
    /// Its descriptor where the stub signals it, not 0.
    fn descriptor(&self) -> u32;
}

/// Routes, lines and irqfds.
#[derive(Debug)]
pub struct Controller<R> {
    pub(super) routing: Routing,
    irqfds: Irqfds<R>,
    /// Present if the I/O APIC is below the VMM.
    ioapic: Option<IoApic>,
}

impl<R: Resample> Controller<R> {
    /// With an I/O APIC, each GSI below 24 leads to its pin.
    pub fn full(apics: &impl LocalApics) -> Self {
        Self {
            routing: Routing::identity(),
            irqfds: Irqfds::default(),
            ioapic: Some(IoApic::reset(apics)),
        }
    }

    /// With local APICs only; no GSI leads anywhere.
    pub fn split() -> Self {
        Self {
            routing: Routing::default(),
            irqfds: Irqfds::default(),
            ioapic: None,
        }
    }

    /// Replaces the routes.
    pub fn set_routing(
        &mut self,
        routes: &[Route],
        apics: &impl LocalApics,
    ) -> Result<(), IrqError> {
        let routing = Routing::new(routes)?;
        if self.ioapic.is_none() {
            routing.check_without_pins()?;
        }
        self.routing = routing;
        self.watch(apics);
        Ok(())
    }

    /// Adds an irqfd.
    pub fn assign(
        &mut self,
        event: EventId,
        gsi: Gsi,
        resample: Option<R>,
        apics: &impl LocalApics,
    ) -> Result<(), IrqError> {
        if resample.is_some() && self.ioapic.is_none() {
            return Err(IrqError::NoResample);
        }
        let is_resampled = resample.is_some();
        self.irqfds.assign(event, gsi, resample)?;
        if is_resampled {
            self.watch(apics);
        }
        Ok(())
    }

    /// Removes an irqfd; none if there was none. The last resampling one of a GSI takes the line that
    /// it holds down with it. Its resamplefd may be signalled by an EOI that has begun before.
    pub fn deassign(
        &mut self,
        event: EventId,
        gsi: Gsi,
        apics: &impl LocalApics,
    ) -> Option<Irqfd<R>> {
        let removed = self.irqfds.deassign(event, gsi)?;
        if removed.resample.is_some() {
            if self.irqfds.resamplers().all(|(other, _)| other != gsi) {
                self.set_line(gsi, Source::Resample, false, apics);
            }
            self.watch(apics);
        }
        Some(removed)
    }

    /// Whether an eventfd is an irqfd.
    pub fn is_assigned(&self, event: EventId) -> bool {
        self.irqfds.trigger(event).is_some()
    }

    /// An irqfd was signalled.
    pub fn signal(&mut self, event: EventId, apics: &impl LocalApics) {
        match self.irqfds.trigger(event) {
            Some(Trigger::Edge(gsi)) => {
                self.set_line(gsi, Source::User, true, apics);
                self.set_line(gsi, Source::User, false, apics);
            }
            Some(Trigger::Level(gsi)) => self.set_line(gsi, Source::Resample, true, apics),
            None => {}
        }
    }

    /// Drives a GSI. A message is sent on the way up; a GSI that leads nowhere does nothing.
    pub fn set_line(&mut self, gsi: Gsi, source: Source, up: bool, apics: &impl LocalApics) {
        match self.routing.target(gsi) {
            Some(Target::Msi(msi)) if up => {
                // The table's messages are checked: there is no error.
                let _ = self.signal_msi(msi, apics);
            }
            Some(Target::Pin(pin)) => self.set_pin(pin, source, up, apics),
            _ => {}
        }
    }

    fn set_pin(&self, pin: u8, source: Source, up: bool, apics: &impl LocalApics) {
        let (true, Some(wire)) = (self.ioapic.is_some(), apics.wire(pin)) else {
            return;
        };
        apics.note(Event::SetIrq);
        apics.note(Event::IoapicSetIrq);
        wire.drive(source, up, |message| is_taken(send(message, apics)));
    }

    /// Sends a message, and says whether a local APIC took it.
    pub fn signal_msi(&self, msi: Msi, apics: &impl LocalApics) -> Result<bool, IrqError> {
        let message = msi.message()?;
        apics.note(Event::MsiSetIrq);
        Ok(is_taken(send(message, apics)))
    }

    /// A vector has left service on a vCPU, and a pin of it has more resamplefds than the stub signals
    /// by itself. Gives all of those that are to be signalled, without the lock that this runs under.
    pub fn eoi(&self, vector: u8, apics: &impl LocalApics) -> Vec<R> {
        let mut ending = Ending {
            controller: self,
            apics,
            told: Vec::new(),
        };
        end(apics.pins(), apics.lines(), vector, &mut ending);
        ending.told
    }

    /// Whom the EOI of a pin signals.
    pub(super) fn resamplers(&self, pin: u8) -> impl Iterator<Item = &R> {
        let leads = move |gsi| self.routing.target(gsi) == Some(Target::Pin(pin));
        let all = self.irqfds.resamplers();
        all.filter_map(move |(gsi, resampler)| leads(gsi).then_some(resampler))
    }

    /// A load from the I/O APIC; none if there is none here.
    pub fn read_ioapic(&self, offset: u64, apics: &impl LocalApics) -> Option<u32> {
        let ioapic = self.ioapic.as_ref();
        ioapic.map(|ioapic| ioapic.read(offset, apics))
    }

    /// A store to the I/O APIC; none if there is none here. Gives the resamplefds that are to be
    /// signalled, without the lock that this runs under.
    pub fn write_ioapic(
        &mut self,
        offset: u64,
        value: u32,
        apics: &impl LocalApics,
    ) -> Option<Vec<R>> {
        let change = self.ioapic.as_mut()?.write(offset, value, apics);
        if change != Change::None {
            self.watch(apics);
        }
        let Change::Pending(pin) = change else {
            return Some(Vec::new());
        };
        let told: Vec<R> = self.resamplers(pin).cloned().collect();
        if !told.is_empty() {
            // The line may be up only because nobody has asked the device since it was masked.
            self.set_pin(pin, Source::Resample, false, apics);
        } else if let Some(wire) = apics.wire(pin) {
            wire.send_level(|message| is_taken(send(message, apics)));
        }
        Some(told)
    }
}

/// The monitor's part of an end of interrupt.
struct Ending<'c, R, A> {
    controller: &'c Controller<R>,
    apics: &'c A,
    told: Vec<R>,
}

impl<R: Resample, A: LocalApics> EndOfInterrupt for Ending<'_, R, A> {
    fn deliver(&mut self, message: Message) -> bool {
        is_taken(send(message, self.apics))
    }

    fn resample(&mut self, number: u8, _pin: &Pin) {
        self.told
            .extend(self.controller.resamplers(number).cloned());
    }

    fn note(&mut self, event: Event) {
        self.apics.note(event);
    }
}

fn send(message: Message, apics: &impl LocalApics) -> Raise {
    message.deliver(apics.lapics(), |vcpu| apics.wake(vcpu))
}

fn is_taken(raise: Raise) -> bool {
    raise != Raise::Refused
}
