//! The monitor's entry points to a guest's interrupt controllers. The local APICs are in shared memory, the rest is in
//! [`Controller`].
//!
//! A thread that raises an interrupt does all the work itself: it changes the controllers, sets the request in the
//! local APIC and notifies the vCPU unless the vCPU will check by itself ([`vmbell_core::vcpu_mode`]). EOIs end in the
//! stub, except those of a pin with more resamplefds than the stub can signal: they come here on the vCPU's thread. The
//! stub signals a resamplefd through the sandbox's descriptor, and the monitor signals it through its own.

use std::io;
use std::sync::Arc;

use vmbell::eventfd::{EventId, Signaller, drain};
use vmbell::irq::{Gsi, IrqError, Irqchip, Msi};
use vmbell::sync::Mutex;
use vmbell_core::event::EventCounts;
use vmbell_core::vcpu_mode::Notification;
use vmbell_hypervisor::Error;
use vmm_sys_util::eventfd::EventFd;

use super::super::revocation::{Revocation, SectionBarrier};
use super::super::sandbox::Sandbox;
use super::apics::{Apics, NotifyVcpu};
use super::controller::{Controller, ControllerState};
use super::ioapic;
use super::irqfd::{Irqfd, Resampler};
use crate::revocation::Unfinished;

/// The interrupt controllers of one guest, on the monitor's side.
#[derive(Debug)]
pub struct Interrupts {
    controller: Mutex<ControllerState>,
    /// The counts of events on the monitor's side, without events in the sandbox.
    pub events: EventCounts,
    /// Signals resamplefds, whose counts the sandbox can fill.
    signaller: &'static Signaller,
    /// Irqfds that no longer raise any interrupt, but whose resamplefd may still be signalled.
    unfinished: Mutex<Unfinished<(EventId, Gsi), Removal>>,
}

/// The rest of the removal of a resampling irqfd that no longer raises any interrupt.
#[derive(Debug)]
struct Removal {
    resampler: Arc<Resampler>,
    revocation: Revocation,
}

impl Removal {
    fn finish(&mut self, sandbox: &Sandbox) -> io::Result<()> {
        self.resampler.retire();
        self.revocation.finish(sandbox)
    }
}

impl Interrupts {
    /// Makes the controllers that `irqchip` asks for; `None` for [`Irqchip::None`].
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no asynchronous I/O.
    pub fn new(irqchip: Irqchip, sandbox: &Sandbox) -> Result<Option<Self>, Error> {
        let events = EventCounts::default();
        let controller = match irqchip {
            Irqchip::None => return Ok(None),
            Irqchip::Split => ControllerState::split(),
            Irqchip::Full => ControllerState::full(&apics(sandbox, &events)),
        };
        let signaller = Signaller::of_process();
        Ok(Some(Self {
            controller: Mutex::new(controller),
            events,
            signaller: signaller.map_err(Error::system("prepare to signal resamplefds"))?,
            unfinished: Mutex::default(),
        }))
    }

    /// Locks the controller of a sandbox until the returned value is dropped.
    pub fn lock<'s>(&'s self, sandbox: &'s Sandbox) -> Controller<'s> {
        let state = self.controller.lock();
        let state = state;
        Controller::new(state, apics(sandbox, &self.events))
    }

    /// Sends a message and returns whether a local APIC accepted it. Takes no lock.
    pub fn signal_msi(&self, sandbox: &Sandbox, msi: Msi) -> Result<bool, IrqError> {
        apics(sandbox, &self.events).signal_msi(msi)
    }

    /// Adds an irqfd. If its count is already above 0, its GSI is raised at once.
    pub fn assign(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<EventId, Error> {
        let id = EventId::of(event).map_err(IrqError::from)?;
        if self.unfinished.lock().any(|(other, _)| *other == id) {
            return Err(IrqError::Busy.into());
        }
        let resampler = resample.map(|resample| add_resampler(sandbox, resample, gsi));
        let resampler = resampler.transpose()?;
        let irqfd = Irqfd {
            gsi,
            resampler: resampler.clone(),
        };
        let assigned = self.lock(sandbox).assign(id, irqfd);
        if let Err(error) = assigned {
            // No EOI can have read this descriptor.
            if let Some(resampler) = resampler {
                // If the revocation fails, the number stays in use in the sandbox, but nothing signals it.
                let _ = sandbox
                    .descriptors
                    .revoke(sandbox.process(), resampler.descriptor());
            }
            return Err(error.into());
        }
        self.poll(sandbox, id, event);
        Ok(id)
    }

    /// Removes an irqfd: once this returns without an error, its signals raise no interrupt and no EOI signals its
    /// resamplefd. Returns false if there was no such irqfd.
    ///
    /// After [`Error::Unremoved`] its signals already raise no interrupt, but its resamplefd may still be signalled and
    /// the eventfd cannot be assigned again, until the same removal is called again and succeeds.
    pub fn deassign(&self, sandbox: &Sandbox, id: EventId, gsi: Gsi) -> Result<bool, Error> {
        // Held to the end, so that no other thread assigns the same eventfd in the meantime.
        let mut unfinished = self.unfinished.lock();
        let mut removal = if let Some(removal) = unfinished.take(&(id, gsi)) {
            removal
        } else {
            let removed = self.lock(sandbox).deassign(id, gsi);
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
        let attempt = removal.finish(sandbox);
        unfinished.end((id, gsi), removal, what, attempt)?;
        Ok(true)
    }

    /// Returns whether all interrupts of a forwarded line have ended. `read` reads a byte of guest memory.
    pub fn has_ended(&self, sandbox: &Sandbox, gsi: Gsi, read: impl Fn(u64) -> Option<u8>) -> bool {
        let runs = &sandbox.shared.runs[..sandbox.lapics().len()];
        let ended_by_bit = |vector| {
            let mut pv_eois = runs.iter().map(|run| &run.interrupts.pv_eoi);
            pv_eois.any(|pv_eoi| pv_eoi.is_ended(vector, &read))
        };
        self.lock(sandbox).has_ended(gsi, ended_by_bit)
    }

    /// Reads the count of an irqfd and raises its GSI, if the count is above 0 and the eventfd is still an irqfd.
    /// Returns the vCPU that was notified and how, if any.
    pub fn poll(
        &self,
        sandbox: &Sandbox,
        id: EventId,
        event: &EventFd,
    ) -> Option<(usize, Notification)> {
        // Under the lock, because a count that was read after a removal would be lost to the next user of the eventfd.
        let controller = self.lock(sandbox);
        if controller.is_assigned(id) && drain(event) {
            controller.signal(id);
        }
        controller.apics().last_notified()
    }

    /// Handles the EOI of a vector that the stub leaves to the monitor. The sandbox can forge an EOI, but that can only
    /// lower lines of its own guest.
    pub fn eoi(&self, sandbox: &Sandbox, vector: u8) {
        let acked = self.lock(sandbox).eoi(vector);
        for resampler in &acked {
            resampler.ack(self.signaller);
        }
    }

    /// Handles a load from the I/O APIC; returns `None` if the access is not to an I/O APIC here.
    pub fn read_ioapic(&self, sandbox: &Sandbox, address: u64, len: u8) -> Option<u64> {
        let offset = offset(address, len)?;
        let value = self.lock(sandbox).read_ioapic(offset);
        value.map(u64::from)
    }

    /// Handles a store to the I/O APIC; returns false if the access is not to an I/O APIC here.
    pub fn write_ioapic(&self, sandbox: &Sandbox, address: u64, len: u8, data: u64) -> bool {
        let Some(offset) = offset(address, len) else {
            return false;
        };
        let value = (data & 0xffff_ffff) as u32;
        let acked = self.lock(sandbox).write_ioapic(offset, value);
        for resampler in acked.iter().flatten() {
            resampler.ack(self.signaller);
        }
        acked.is_some()
    }
}

/// Returns the irqchip memory of a sandbox. vCPUs are notified of the requests that their local APICs accept.
fn apics<'s>(sandbox: &'s Sandbox, events: &'s EventCounts) -> Apics<'s> {
    let (pins, lines) = (&sandbox.control.pins, &sandbox.shared.lines);
    Apics::new(sandbox.lapics(), pins, lines, events, sandbox)
}

impl NotifyVcpu for Sandbox {
    fn notify(&self, vcpu: usize) -> Notification {
        Self::notify(self, vcpu)
    }
}

fn add_resampler(sandbox: &Sandbox, resample: &EventFd, gsi: Gsi) -> Result<Arc<Resampler>, Error> {
    EventId::of(resample).map_err(IrqError::from)?;
    let event = resample
        .try_clone()
        .map_err(Error::system("duplicate a resamplefd"))?;
    let purpose = format_args!("the resamplefd of {gsi}");
    let number = sandbox
        .descriptors
        .add(sandbox.process(), &event, &purpose)?;
    Ok(Arc::new(Resampler::new(event, number)))
}

/// Returns the offset of an access in the I/O APIC; `None` if it is elsewhere or not 32 bits wide (82093AA, 3.0).
fn offset(address: u64, len: u8) -> Option<u64> {
    let offset = address.checked_sub(ioapic::BASE)?;
    (offset < ioapic::SIZE && len == 4).then_some(offset)
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "interrupts_test.rs"]
mod tests;
