//! A guest of the usermode backend: the monitor's handle, which passes registrations to the doorbells and the irqchip.
//! Its functions run on any thread.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::EventId;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route};
use vmbell_core::event::Event;
use vmbell_core::ioapic::Source;
use vmbell_hypervisor::measure::{EventCounts, EventSource, ExitCounts, Measure};
use vmbell_hypervisor::{
    AssignedDevices, Capability, CreatedVcpus, DeviceMemory, Doorbell, Error, ForwardedInterrupt,
    IoEvents, IrqTrigger, Irqfd, Irqs, Payload, Vcpu, Vm, VmConfig, VmState,
};
use vmm_sys_util::eventfd::EventFd;

use super::capability::unsupported;
use super::doorbells::light_exits;
use super::guest::UsermodeGuest;
use super::irqchip::Interrupts;
use super::irqfd_watcher::IrqfdWatcher;
use super::vcpu::UsermodeVcpu;

/// A guest that runs in a sandbox process. The process ends when the guest, its vCPUs and their handles are
/// dropped.
#[derive(Debug)]
pub struct UsermodeVm {
    pub(super) guest: Arc<UsermodeGuest>,
    created_vcpus: CreatedVcpus<()>,
    irqfds: Arc<OnceLock<IrqfdWatcher>>,
}

impl UsermodeVm {
    pub(super) fn new(config: &VmConfig) -> Result<Self, Error> {
        Ok(Self {
            guest: Arc::new(UsermodeGuest::new(config)?),
            created_vcpus: CreatedVcpus::new(config.vcpus),
            irqfds: Arc::default(),
        })
    }
}

impl UsermodeVm {
    fn register(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
        payload: Option<u32>,
    ) -> Result<Doorbell, Error> {
        let UsermodeGuest {
            doorbells, sandbox, ..
        } = &*self.guest;
        doorbells.register(sandbox, event, address, datamatch.into(), sharing, payload)?;
        let guest = Arc::downgrade(&self.guest);
        Ok(Doorbell::new(event, guest, address, datamatch, sharing))
    }

    fn interrupts(&self) -> Result<&Interrupts, Error> {
        let interrupts = self.guest.interrupts.as_ref();
        interrupts.ok_or(Error::Irq(IrqError::NoIrqchip))
    }

    /// Returns the thread that waits for irqfds. The first registration of an irqfd starts it.
    fn watcher(&self) -> Result<&IrqfdWatcher, Error> {
        if self.irqfds.get().is_none() {
            let watcher = IrqfdWatcher::start(Arc::clone(&self.guest))?;
            // If two threads each started a watcher, the second is dropped here.
            let _ = self.irqfds.set(watcher);
        }
        self.irqfds.get().ok_or(Error::Irq(IrqError::NoIrqchip))
    }
}

impl AssignedDevices for UsermodeVm {
    fn map_device_memory(&self, _address: u64, _memory: &DeviceMemory) -> Result<(), Error> {
        Err(unsupported(Capability::MovableDeviceMemory))
    }

    fn unmap_device_memory(&self, _address: u64) -> Result<(), Error> {
        Err(unsupported(Capability::MovableDeviceMemory))
    }

    fn add_vfio_file(&self, _file: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn remove_vfio_file(&self, _file: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn forward_interrupt(
        &self,
        _device: &Arc<File>,
        _index: u32,
        _gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        Err(unsupported(Capability::ForwardedInterrupts))
    }
}

impl Vm for UsermodeVm {
    fn memory(&self) -> &GuestMemoryMmap {
        &self.guest.memory
    }

    fn create_vcpu(&self, index: u32) -> Result<Box<dyn Vcpu>, Error> {
        let vcpu = self.created_vcpus.create(index, || {
            let vcpu = UsermodeVcpu::new(Arc::clone(&self.guest), index as usize);
            Ok((vcpu, ()))
        })?;
        Ok(Box::new(vcpu))
    }

    fn save(&self) -> Result<VmState, Error> {
        Err(unsupported(Capability::Snapshots))
    }

    fn restore(&self, _: &VmState) -> Result<(), Error> {
        Err(unsupported(Capability::Snapshots))
    }

    fn measure(&self) -> &dyn Measure {
        self
    }
}

impl Measure for UsermodeVm {
    fn exit_counts(&self) -> ExitCounts {
        let runs = &self.guest.sandbox.shared.runs;
        let heavy = runs
            .iter()
            .map(|run| run.counters.heavy.load(Relaxed))
            .fold(0, u64::wrapping_add);
        ExitCounts {
            light: Some(light_exits(&self.guest.sandbox)),
            heavy,
        }
    }

    fn events(&self) -> io::Result<EventCounts> {
        let count = |event: Event| {
            let runs = self.guest.sandbox.shared.runs.iter();
            let all = runs.map(|run| run.counters.events.get(event));
            let below = all.fold(0, u64::wrapping_add);
            let interrupts = self.guest.interrupts.as_ref();
            let above = interrupts.map_or(0, |interrupts| interrupts.events.get(event));
            (event.name().to_owned(), below.wrapping_add(above))
        };
        Ok(Event::ALL.into_iter().map(count).collect())
    }

    fn event_source(&self) -> EventSource {
        let name = "the engine, where each event happens";
        EventSource::new(name, Event::Exit.name(), false)
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.guest.sandbox.process().pid().cast_unsigned()]
    }

    fn register_coalesced(&self, _address: u64, _len: u32) -> Result<(), Error> {
        Err(unsupported(Capability::CoalescedMmio))
    }
}

impl IoEvents for UsermodeVm {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        self.register(event, address, datamatch, sharing, None)
    }

    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        len: u32,
    ) -> Result<Doorbell, Error> {
        let datamatch = Datamatch::any_of(len)?;
        let payload = PayloadIndex {
            index: self.guest.payloads.take()?,
            guest: Arc::downgrade(&self.guest),
        };
        let sharing = Sharing::Exclusive;
        let doorbell = self.register(event, address, datamatch, sharing, Some(payload.index))?;
        Ok(doorbell.with_payload(Box::new(payload)))
    }
}

impl Irqs for UsermodeVm {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        let interrupts = self.interrupts()?;
        let watcher = self.watcher()?;
        let id = interrupts.assign(&self.guest.sandbox, event, gsi, resample)?;
        watcher.add(id, event).or_else(|error| {
            interrupts.deassign(&self.guest.sandbox, id, gsi)?;
            Err(error)
        })?;
        let trigger = DirectTrigger {
            guest: Arc::downgrade(&self.guest),
            id,
        };
        let (guest, watcher) = (trigger.guest.clone(), Arc::downgrade(&self.irqfds));
        let remove = move |_: &EventFd| {
            let removed = match guest.upgrade() {
                Some(guest) => guest.remove_irqfd(id, gsi),
                None => Ok(()),
            };
            // This is done even after an error: the irqfd no longer raises any interrupt, although the sandbox may
            // still have its resamplefd.
            if let Some(watcher) = watcher.upgrade()
                && let Some(watcher) = watcher.get()
            {
                watcher.remove(id);
            }
            removed
        };
        let trigger = Some(Box::new(trigger) as Box<dyn IrqTrigger>);
        Ok(Irqfd::new(event, gsi, trigger, remove))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        let interrupts = self.interrupts()?;
        Ok(interrupts.lock(&self.guest.sandbox).set_routing(routes)?)
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        let interrupts = self.interrupts()?;
        interrupts
            .lock(&self.guest.sandbox)
            .set_line(gsi, Source::User, level);
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        let interrupts = self.interrupts()?;
        interrupts.lock(&self.guest.sandbox).forward_line(gsi)?;
        let guest = Arc::downgrade(&self.guest);
        Ok(Box::new(LineOwner { guest, gsi }))
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        Ok(self.interrupts()?.signal_msi(&self.guest.sandbox, msi)?)
    }
}

/// The index of a stored value. Its doorbell owns the index until it is dropped.
#[derive(Debug)]
struct PayloadIndex {
    guest: Weak<UsermodeGuest>,
    index: u32,
}

impl Payload for PayloadIndex {
    fn value(&self) -> Option<u64> {
        let guest = self.guest.upgrade()?;
        Some(guest.sandbox.shared.payloads[self.index as usize].load(Acquire))
    }
}

impl Drop for PayloadIndex {
    fn drop(&mut self) {
        if let Some(guest) = self.guest.upgrade() {
            guest.payloads.give_back(self.index);
        }
    }
}

/// Raises the GSI of an irqfd on the calling thread, without a write to the eventfd. The reference is weak,
/// because a device may outlive its guest.
#[derive(Debug)]
struct DirectTrigger {
    guest: Weak<UsermodeGuest>,
    id: EventId,
}

impl IrqTrigger for DirectTrigger {
    fn signal(&self) {
        if let Some(guest) = self.guest.upgrade()
            && let Some(interrupts) = &guest.interrupts
        {
            interrupts.lock(&guest.sandbox).signal(self.id);
        }
    }
}

/// The owner's side of a forwarded line. Once the guest has ended or is gone, no interrupt is in service.
#[derive(Debug)]
struct LineOwner {
    guest: Weak<UsermodeGuest>,
    gsi: Gsi,
}

impl ForwardedLine for LineOwner {
    fn raise(&self) {
        if let Some(guest) = self.guest.upgrade()
            && let Some(interrupts) = &guest.interrupts
        {
            interrupts.lock(&guest.sandbox).raise_forwarded(self.gsi);
        }
    }

    fn has_ended(&self) -> bool {
        self.guest.upgrade().is_none_or(|guest| {
            let read = |address| guest.memory.load(GuestAddress(address), Relaxed).ok();
            let interrupts = guest.interrupts.as_ref();
            guest.sandbox.process().has_ended()
                || interrupts.is_none_or(|all| all.has_ended(&guest.sandbox, self.gsi, read))
        })
    }
}

impl Drop for LineOwner {
    fn drop(&mut self) {
        if let Some(guest) = self.guest.upgrade()
            && let Some(interrupts) = &guest.interrupts
        {
            interrupts.lock(&guest.sandbox).unforward_line(self.gsi);
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn sandbox_stays_stopped_as_long_as_one_of_two_threads_needs_it() {
        let vm = UsermodeVm::new(&VmConfig::default()).unwrap();
        let process = vm.guest.sandbox.process();
        let stop = || {
            for _ in 0..100 {
                let act = || {
                    std::thread::yield_now();
                    process.is_stopped().unwrap()
                };
                assert!(process.while_stopped(act).unwrap());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(stop);
            stop();
        });
        assert!(!process.is_stopped().unwrap());
    }
}
