//! A guest's interrupt controllers as whoever raises interrupts sees them: routes, the I/O APIC's
//! lines, irqfds, and the way back from an EOI to those who wait for it.
//!
//! For backends whose interrupt controllers are not the kernel's. It runs under the owner's lock, on
//! whichever thread raises an interrupt or ends one; local APICs take what it sends with no lock.

use super::irqfd::Trigger;
use super::{
    Gsi, IoApic, IrqError, Irqfds, Lapic, Message, Msi, PINS, Raise, Route, Routing, Target,
    ioapic::Change,
};
use crate::eventfd::EventId;
use stub::event::Event;

/// The local APICs of a guest.
pub trait LocalApics {
    /// All, by the index of their vCPU.
    fn lapics(&self) -> impl Iterator<Item = &Lapic> + Clone;
    /// A vCPU has got a request that it may not have seen.
    fn wake(&self, vcpu: usize);
    /// Something has happened that somebody may count.
    fn note(&self, _event: Event) {}
}

/// What the EOI of a line signals.
pub trait Resample {
    /// Adds 1 to the resamplefd.
    fn signal(&self);
}

/// Who drives a line: it is up while any of them holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices, and irqfds that are edges.
    User,
    /// Resampling irqfds, all of them together.
    Resample,
}

/// The pin whose EOI is always watched: the real-time clock's (Linux `RTC_GSI`).
const RTC_PIN: u8 = 8;

/// Routes, lines and irqfds.
#[derive(Debug)]
pub struct Controller<R> {
    routing: Routing,
    irqfds: Irqfds<R>,
    /// Present if the I/O APIC is below the VMM.
    ioapic: Option<IoApic>,
    /// Who holds each pin up: a bit for each [`Source`].
    held: [u8; PINS],
}

impl<R: Resample> Controller<R> {
    /// With an I/O APIC, each GSI below 24 leads to its pin.
    pub fn full() -> Self {
        Self {
            routing: Routing::identity(),
            irqfds: Irqfds::default(),
            ioapic: Some(IoApic::default()),
            held: [0; PINS],
        }
    }

    /// With local APICs only; no GSI leads anywhere.
    pub fn split() -> Self {
        Self {
            routing: Routing::default(),
            irqfds: Irqfds::default(),
            ioapic: None,
            held: [0; PINS],
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
        self.irqfds.assign(event, gsi, resample)?;
        self.watch(apics);
        Ok(())
    }

    /// Removes an irqfd, and says whether there was one. The last resampling one of a GSI takes the
    /// line that it holds down with it.
    pub fn deassign(&mut self, event: EventId, gsi: Gsi, apics: &impl LocalApics) -> bool {
        let resampling = matches!(self.irqfds.trigger(event), Some(Trigger::Level(_)));
        let found = self.irqfds.deassign(event, gsi);
        if found && resampling {
            if self.irqfds.resamplers(gsi).next().is_none() {
                self.set_line(gsi, Source::Resample, false, apics);
            }
            self.watch(apics);
        }
        found
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

    fn set_pin(&mut self, pin: u8, source: Source, up: bool, apics: &impl LocalApics) {
        let (Some(ioapic), Some(held)) = (&mut self.ioapic, self.held.get_mut(usize::from(pin)))
        else {
            return;
        };
        apics.note(Event::SetIrq);
        apics.note(Event::IoapicSetIrq);
        let bit = 1 << source as u8;
        *held = if up { *held | bit } else { *held & !bit };
        let up = *held != 0;
        ioapic.set_level(pin, up, |message| is_taken(send(message, apics)));
    }

    /// Sends a message, and says whether a local APIC took it.
    pub fn signal_msi(&self, msi: Msi, apics: &impl LocalApics) -> Result<bool, IrqError> {
        let message = msi.message()?;
        apics.note(Event::MsiSetIrq);
        Ok(is_taken(send(message, apics)))
    }

    /// A vector that somebody watches has left service on a vCPU. Each resampled line goes down once
    /// for all its irqfds, then each of them is told; a line that others hold up is sent again.
    pub fn eoi(&mut self, vector: u8, apics: &impl LocalApics) {
        let pins = self.ioapic.as_ref().map(|ioapic| ioapic.pins_with(vector));
        for pin in pins.into_iter().flatten() {
            apics.note(Event::AckIrq);
            self.resample(pin, apics);
            if let Some(ioapic) = &mut self.ioapic {
                ioapic.eoi(pin, |message| is_taken(send(message, apics)));
            }
        }
    }

    /// Takes a pin's resampled line down and tells whoever resamples it. False if nobody does.
    fn resample(&mut self, pin: u8, apics: &impl LocalApics) -> bool {
        if !self.is_resampled(pin) {
            return false;
        }
        self.set_pin(pin, Source::Resample, false, apics);
        for gsi in self.routing.gsis(pin) {
            for resampler in self.irqfds.resamplers(gsi) {
                resampler.signal();
            }
        }
        true
    }

    fn is_resampled(&self, pin: u8) -> bool {
        let mut gsis = self.routing.gsis(pin);
        gsis.any(|gsi| self.irqfds.resamplers(gsi).next().is_some())
    }

    /// A load from the I/O APIC; none if there is none here.
    pub fn read_ioapic(&self, offset: u64) -> Option<u32> {
        self.ioapic.as_ref().map(|ioapic| ioapic.read(offset))
    }

    /// A store to the I/O APIC; false if there is none here.
    pub fn write_ioapic(&mut self, offset: u64, value: u32, apics: &impl LocalApics) -> bool {
        let Some(ioapic) = &mut self.ioapic else {
            return false;
        };
        let change = ioapic.write(offset, value);
        if change != Change::None {
            self.watch(apics);
        }
        // The line may be up only because nobody has asked the device since it was masked.
        if let Change::Pending(pin) = change
            && !self.resample(pin, apics)
            && let Some(ioapic) = &mut self.ioapic
        {
            ioapic.resend(pin, |message| is_taken(send(message, apics)));
        }
        true
    }

    /// Tells each local APIC which EOIs somebody waits for: those of level pins, of resampled ones and
    /// of the clock's, and of level messages (Linux `ioapic_handled_vectors`). A vector that is on its
    /// way or in service stays watched until its end.
    fn watch(&self, apics: &impl LocalApics) {
        let pins = self.ioapic.iter().flat_map(IoApic::messages);
        let watched = |(pin, message): &(u8, Message)| {
            message.level || *pin == RTC_PIN || self.is_resampled(*pin)
        };
        let of_pins = pins.filter(watched).map(|(_, message)| message);
        let of_routes = self
            .routing
            .routes()
            .filter_map(|route| match route.target {
                Target::Msi(msi) => msi.message().ok().filter(|message| message.level),
                Target::Pin(_) => None,
            });
        let messages: Vec<_> = of_pins.chain(of_routes).collect();
        for lapic in apics.lapics() {
            for vector in 0..=u8::MAX {
                let mut all = messages.iter();
                let wanted = all
                    .any(|message| message.vector == vector && message.destination.includes(lapic));
                if wanted {
                    lapic.watched.insert(vector);
                } else if !lapic.irr.contains(vector) && !lapic.is_in_service(vector) {
                    lapic.watched.remove(vector);
                }
            }
        }
    }
}

fn send(message: Message, apics: &impl LocalApics) -> Raise {
    message.deliver(apics.lapics(), |vcpu| apics.wake(vcpu))
}

fn is_taken(raise: Raise) -> bool {
    raise != Raise::Refused
}
