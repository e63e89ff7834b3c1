//! The interrupt controllers of one guest: local APICs in shared memory, the rest here.
//!
//! Whoever raises an interrupt does it on its own thread: it changes what the controllers hold, sets
//! the request in the local APIC and tells the vCPU, if that cannot see it by itself
//! ([`stub::presence`]). EOIs that somebody waits for come back on the vCPU's thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stub::event::{Event, EventCounts};
use vmm_sys_util::eventfd::EventFd;

use super::super::Irqchip;
use super::error::UsermodeError;
use super::irqfds::drain;
use super::sandbox::Sandbox;
use crate::eventfd::EventId;
use crate::irq::{
    Controller, Gsi, IrqError, Lapic, LocalApics, Msi, Raise, Resample, Route, Source, ioapic,
};

/// What interrupts go through on the monitor's side.
#[derive(Debug)]
pub struct Interrupts {
    controller: Mutex<Controller<Resampler>>,
    /// What happened here, and not in the sandbox.
    pub events: EventCounts,
}

/// A resamplefd.
#[derive(Debug)]
pub struct Resampler(EventFd);

impl Resample for Resampler {
    fn signal(&self) {
        // Fails when it is saturated: then whoever waits for it has enough to read.
        let _ = self.0.write(1);
    }
}

/// The local APICs of a sandbox, and how their vCPUs are told.
struct Apics<'s> {
    sandbox: &'s Sandbox,
    events: &'s EventCounts,
}

impl LocalApics for Apics<'_> {
    fn lapics(&self) -> impl Iterator<Item = &Lapic> + Clone {
        self.sandbox.lapics().iter()
    }

    fn wake(&self, vcpu: usize) {
        self.events.count(Event::ApicAcceptIrq);
        self.sandbox.tell(vcpu);
    }

    fn note(&self, event: Event) {
        self.events.count(event);
    }
}

impl Interrupts {
    /// None for a guest without interrupt controllers.
    pub fn new(irqchip: Irqchip) -> Option<Self> {
        let controller = match irqchip {
            Irqchip::None => return None,
            Irqchip::Split => Controller::split(),
            Irqchip::Full => Controller::full(),
        };
        Some(Self {
            controller: Mutex::new(controller),
            events: EventCounts::default(),
        })
    }

    fn controller(&self) -> MutexGuard<'_, Controller<Resampler>> {
        self.controller
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn apics<'s>(&'s self, sandbox: &'s Sandbox) -> Apics<'s> {
        Apics {
            sandbox,
            events: &self.events,
        }
    }

    /// Replaces the routes.
    pub fn set_routing(&self, sandbox: &Sandbox, routes: &[Route]) -> Result<(), IrqError> {
        self.controller().set_routing(routes, &self.apics(sandbox))
    }

    /// Drives a GSI for a device.
    pub fn set_line(&self, sandbox: &Sandbox, gsi: Gsi, up: bool) {
        let apics = self.apics(sandbox);
        self.controller().set_line(gsi, Source::User, up, &apics);
    }

    /// Sends a message; whether a local APIC took it. Takes no lock.
    pub fn signal_msi(&self, sandbox: &Sandbox, msi: Msi) -> Result<bool, IrqError> {
        self.events.count(Event::MsiSetIrq);
        let apics = self.apics(sandbox);
        let raise = msi
            .message()?
            .deliver(apics.lapics(), |vcpu| apics.wake(vcpu));
        Ok(raise != Raise::Refused)
    }

    /// Adds an irqfd; what it counts already is raised at once.
    pub fn assign(
        &self,
        sandbox: &Sandbox,
        event: &Arc<EventFd>,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<EventId, UsermodeError> {
        let id = EventId::of(event.as_ref()).map_err(IrqError::from)?;
        let resampler = match resample {
            Some(resample) => {
                EventId::of(resample).map_err(IrqError::from)?;
                let copy = resample.try_clone();
                Some(Resampler(copy.map_err(|source| UsermodeError::System {
                    operation: "duplicate a resamplefd",
                    source,
                })?))
            }
            None => None,
        };
        let apics = self.apics(sandbox);
        self.controller().assign(id, gsi, resampler, &apics)?;
        self.poll(sandbox, id, event);
        Ok(id)
    }

    /// Removes an irqfd: when it returns, its signals raise nothing. False if there was none.
    pub fn deassign(&self, sandbox: &Sandbox, id: EventId, gsi: Gsi) -> bool {
        let apics = self.apics(sandbox);
        self.controller().deassign(id, gsi, &apics)
    }

    /// Takes an irqfd's count and raises its GSI, if there is one and it still is one.
    pub fn poll(&self, sandbox: &Sandbox, id: EventId, event: &EventFd) {
        // Under the lock: what is taken after a removal would be lost to the next user of the eventfd.
        let mut controller = self.controller();
        if controller.is_assigned(id) && drain(event) {
            controller.signal(id, &self.apics(sandbox));
        }
    }

    /// A vCPU has done with a vector that is watched, or so its sandbox says: a false one can only
    /// take down lines of the guest's own.
    pub fn eoi(&self, sandbox: &Sandbox, vector: u8) {
        self.controller().eoi(vector, &self.apics(sandbox));
    }

    /// A load from the I/O APIC; none if that is elsewhere.
    pub fn read_ioapic(&self, address: u64, len: u8) -> Option<u64> {
        let offset = offset(address, len)?;
        self.controller().read_ioapic(offset).map(u64::from)
    }

    /// A store to the I/O APIC; false if that is elsewhere.
    pub fn write_ioapic(&self, sandbox: &Sandbox, address: u64, len: u8, data: u64) -> bool {
        let Some(offset) = offset(address, len) else {
            return false;
        };
        let value = (data & 0xffff_ffff) as u32;
        self.controller()
            .write_ioapic(offset, value, &self.apics(sandbox))
    }
}

/// Where in the I/O APIC an access is: of 32 bits, or it is none (82093AA, 3.0).
fn offset(address: u64, len: u8) -> Option<u64> {
    let offset = address.checked_sub(ioapic::BASE)?;
    (offset < ioapic::SIZE && len == 4).then_some(offset)
}
