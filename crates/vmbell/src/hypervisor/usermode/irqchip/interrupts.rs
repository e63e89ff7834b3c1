//! The interrupt controllers of one guest: local APICs in shared memory, the rest here.
//!
//! Whoever raises an interrupt does it on its own thread: it changes what the controllers hold, sets
//! the request in the local APIC and tells the vCPU, if that cannot see it by itself
//! ([`stub::presence`]). EOIs end in the stub, but for those of a pin with more resamplefds than it
//! knows, which come back on the vCPU's thread.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stub::event::EventCounts;
use stub::ioapic::Source;
use stub::presence::Tell;
use vmm_sys_util::eventfd::EventFd;

use super::super::eventfd::drain;
use super::super::removal::Unfinished;
use super::super::revocation::{Revocation, SectionBarrier};
use super::super::sandbox::Sandbox;
use super::apics::Apics;
use super::controller::{Controller, Irqfd};
use super::ioapic;
use super::resampler::Resampler;
use crate::doorbell::Barrier;
use crate::eventfd::EventId;
use crate::hypervisor::Error;
use crate::irq::{Gsi, IrqError, Irqchip, Msi, Route};

/// What interrupts go through on the monitor's side.
#[derive(Debug)]
pub struct Interrupts {
    controller: Mutex<Controller>,
    /// What happened here, and not in the sandbox.
    pub events: EventCounts,
    /// Irqfds that raise nothing any more, but whose resamplefd may be signalled.
    unfinished: Mutex<Unfinished<(EventId, Gsi), Removal>>,
}

/// What is left to do for a resampling irqfd that raises nothing any more.
#[derive(Debug)]
struct Removal {
    resampler: Arc<Resampler>,
    revocation: Revocation,
}

impl Removal {
    fn finish(&mut self, sandbox: &Sandbox) -> io::Result<()> {
        self.resampler.retire()?;
        self.revocation.finish(sandbox)
    }
}

impl Interrupts {
    /// None for a guest without interrupt controllers.
    pub fn new(irqchip: Irqchip, sandbox: &Sandbox) -> Option<Self> {
        let events = EventCounts::default();
        let controller = match irqchip {
            Irqchip::None => return None,
            Irqchip::Split => Controller::split(),
            Irqchip::Full => with_apics(sandbox, &events, Controller::full),
        };
        Some(Self {
            controller: Mutex::new(controller),
            events,
            unfinished: Mutex::default(),
        })
    }

    /// Does something to the irqchip of a sandbox, under its lock.
    fn locked<T>(
        &self,
        sandbox: &Sandbox,
        act: impl FnOnce(&mut Controller, &Apics<'_>) -> T,
    ) -> T {
        let controller = self.controller.lock();
        let mut controller = controller.unwrap_or_else(PoisonError::into_inner);
        with_apics(sandbox, &self.events, |apics| act(&mut controller, apics))
    }

    fn unfinished(&self) -> MutexGuard<'_, Unfinished<(EventId, Gsi), Removal>> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the routes.
    pub fn set_routing(&self, sandbox: &Sandbox, routes: &[Route]) -> Result<(), IrqError> {
        self.locked(sandbox, |controller, apics| {
            controller.set_routing(routes, apics)
        })
    }

    /// Drives a GSI for a device.
    pub fn set_line(&self, sandbox: &Sandbox, gsi: Gsi, up: bool) {
        self.locked(sandbox, |controller, apics| {
            controller.set_line(gsi, Source::User, up, apics);
        });
    }

    /// Sends a message; whether a local APIC took it. Takes no lock.
    pub fn signal_msi(&self, sandbox: &Sandbox, msi: Msi) -> Result<bool, IrqError> {
        with_apics(sandbox, &self.events, |apics| apics.signal_msi(msi))
    }

    /// Adds an irqfd; what it counts already is raised at once.
    pub fn assign(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<EventId, Error> {
        let id = EventId::of(event).map_err(IrqError::from)?;
        if self.unfinished().any(|(other, _)| *other == id) {
            return Err(IrqError::Busy.into());
        }
        let resampler = resample.map(|resample| add_resampler(sandbox, resample, gsi));
        let resampler = resampler.transpose()?;
        let irqfd = Irqfd {
            gsi,
            resampler: resampler.clone(),
        };
        let assigned = self.locked(sandbox, |controller, apics| {
            controller.assign(id, irqfd, apics)
        });
        if let Err(error) = assigned {
            // No EOI has seen it.
            if let Some(resampler) = resampler {
                // One that cannot be taken back is lost to the sandbox, which signals nothing by it.
                let _ = sandbox.descriptors.revoke(resampler.descriptor());
            }
            return Err(error.into());
        }
        self.poll(sandbox, id, event);
        Ok(id)
    }

    /// Removes an irqfd: when it returns without an error, its signals raise nothing, and no EOI signals
    /// its resamplefd. False if there was none.
    ///
    /// After [`Error::Unremoved`] its signals raise nothing already, but the resamplefd may be
    /// signalled, and the eventfd is an irqfd still to who assigns it, until the same removal is tried
    /// again and succeeds.
    pub fn deassign(&self, sandbox: &Sandbox, id: EventId, gsi: Gsi) -> Result<bool, Error> {
        // Held to the end, so that nobody assigns the same eventfd anew meanwhile.
        let mut unfinished = self.unfinished();
        let removal = if let Some(removal) = unfinished.take(&(id, gsi)) {
            removal
        } else {
            let removed = self.locked(sandbox, |controller, apics| {
                controller.deassign(id, gsi, apics)
            });
            let Some(Irqfd { resampler, .. }) = removed else {
                return Ok(false);
            };
            let Some(resampler) = resampler else {
                return Ok(true);
            };
            let barrier = SectionBarrier::new(sandbox);
            barrier.wait();
            let revocation = Revocation::new(resampler.descriptor(), &barrier);
            Removal {
                resampler,
                revocation,
            }
        };
        let what = format_args!("the resampling irqfd of {gsi}");
        unfinished.finish((id, gsi), removal, what, |rest| rest.finish(sandbox))?;
        Ok(true)
    }

    /// Takes an irqfd's count and raises its GSI, if there is one and it still is one. Which vCPU was
    /// told and how, if one was.
    pub fn poll(&self, sandbox: &Sandbox, id: EventId, event: &EventFd) -> Option<(usize, Tell)> {
        // Under the lock: what is taken after a removal would be lost to the next user of the eventfd.
        self.locked(sandbox, |controller, apics| {
            if controller.is_assigned(id) && drain(event) {
                controller.signal(id, apics);
            }
            apics.told()
        })
    }

    /// Raises the GSI of an irqfd as its signal does, if it still is one.
    pub fn signal(&self, sandbox: &Sandbox, id: EventId) {
        self.locked(sandbox, |controller, apics| controller.signal(id, apics));
    }

    /// The EOI of a vector that the stub leaves to the monitor to ack, or so its sandbox says: a false one
    /// can only take down lines of the guest's own.
    pub fn eoi(&self, sandbox: &Sandbox, vector: u8) {
        let acked = self.locked(sandbox, |controller, apics| controller.eoi(vector, apics));
        acked.iter().for_each(|resampler| resampler.ack());
    }

    /// A load from the I/O APIC; none if that is elsewhere.
    pub fn read_ioapic(&self, sandbox: &Sandbox, address: u64, len: u8) -> Option<u64> {
        let offset = offset(address, len)?;
        let value = self.locked(sandbox, |controller, apics| {
            controller.read_ioapic(offset, apics)
        });
        value.map(u64::from)
    }

    /// A store to the I/O APIC; false if that is elsewhere.
    pub fn write_ioapic(&self, sandbox: &Sandbox, address: u64, len: u8, data: u64) -> bool {
        let Some(offset) = offset(address, len) else {
            return false;
        };
        let value = (data & 0xffff_ffff) as u32;
        let acked = self.locked(sandbox, |controller, apics| {
            controller.write_ioapic(offset, value, apics)
        });
        for resampler in acked.iter().flatten() {
            resampler.ack();
        }
        acked.is_some()
    }
}

/// Does something to what lies in a sandbox; its vCPUs are told of what their local APICs take.
fn with_apics<T>(sandbox: &Sandbox, events: &EventCounts, act: impl FnOnce(&Apics<'_>) -> T) -> T {
    let tell = |vcpu| sandbox.tell(vcpu);
    let (pins, lines) = (&sandbox.control.pins, &sandbox.shared.lines);
    act(&Apics::new(sandbox.lapics(), pins, lines, events, &tell))
}

fn add_resampler(sandbox: &Sandbox, resample: &EventFd, gsi: Gsi) -> Result<Arc<Resampler>, Error> {
    EventId::of(resample).map_err(IrqError::from)?;
    let event = resample
        .try_clone()
        .map_err(Error::system("duplicate a resamplefd"))?;
    let purpose = format_args!("the resamplefd of {gsi}");
    let number = sandbox.descriptors.add(&event, &purpose)?;
    Ok(Arc::new(Resampler::new(event, number)))
}

/// Where in the I/O APIC an access is: of 32 bits, or it is none (82093AA, 3.0).
fn offset(address: u64, len: u8) -> Option<u64> {
    let offset = address.checked_sub(ioapic::BASE)?;
    (offset < ioapic::SIZE && len == 4).then_some(offset)
}
