//! The thread that waits for irqfds signalled by other processes or threads. Each guest that has irqfds has such a
//! thread.
//!
//! An eventfd cannot send a signal to a vCPU, so a thread has to wait for it and raise the interrupt. If an irqfd has
//! woken a halted vCPU once, its next signal wakes that vCPU directly ([`super::halt_fds`]), while this thread raises
//! the interrupt. If possible, this thread runs on a CPU that no vCPU is bound to.
//!
//! The thread keeps each eventfd open, so it never sees a hang-up: KVM drops an irqfd whose other holders have all
//! closed it, but here such an irqfd stays until it is removed. Devices in this process do not need the thread: they
//! raise their interrupts directly.

use std::sync::Arc;

use vmbell::sync::{Mutex, MutexGuard};
use vmbell_core::vcpu_mode::Notification;
use vmm_sys_util::eventfd::EventFd;

use super::guest::UsermodeGuest;
use super::thread::{allowed_cpus, bind};
use vmbell::eventfd::EventId;
use vmbell::thread::{EventLoop, EventSet, ThreadKind, Token};
use vmbell_hypervisor::Error;

/// The thread, and the irqfds that it waits for.
#[derive(Debug)]
pub struct IrqfdWatcher {
    guest: Arc<UsermodeGuest>,
    irqfds: Mutex<Vec<Watched>>,
    thread: EventLoop,
}

#[derive(Debug)]
struct Watched {
    irqfd: Arc<Irqfd>,
    token: Token,
}

#[derive(Debug)]
struct Irqfd {
    id: EventId,
    event: Arc<EventFd>,
    /// The vCPU whose epoll descriptor has this irqfd, or could not take it.
    wakes_vcpu: Mutex<Option<usize>>,
}

impl IrqfdWatcher {
    /// Starts the thread. The watcher keeps `guest` alive until it is dropped.
    pub fn start(guest: Arc<UsermodeGuest>) -> Result<Self, Error> {
        let mut cpus = allowed_cpus().map_err(Error::system("read the cpus of this thread"))?;
        cpus.retain(|cpu| !guest.vcpu_cpus.contains(cpu));
        let setup = move || {
            if !cpus.is_empty() {
                // A failure only costs time: on a vCPU's CPU, this thread and the vCPU have to take turns.
                let _ = bind(None, &cpus);
            }
        };
        let thread = EventLoop::with_setup(ThreadKind::Device, "vmbell-irqfds", setup)
            .map_err(Error::system("start the irqfd thread"))?;
        Ok(Self {
            guest,
            irqfds: Mutex::default(),
            thread,
        })
    }

    /// Adds an irqfd to wait for. Fails if epoll cannot take the eventfd.
    pub fn add(&self, id: EventId, event: &Arc<EventFd>) -> Result<(), Error> {
        let irqfd = Arc::new(Irqfd {
            id,
            event: Arc::clone(event),
            wakes_vcpu: Mutex::default(),
        });
        let (guest, theirs) = (Arc::clone(&self.guest), Arc::clone(&irqfd));
        let raise = move || {
            theirs.raise(&guest);
            false
        };
        let token = self
            .thread
            .add(Arc::clone(event), EventSet::IN, raise)
            .map_err(Error::system("wait for an irqfd"))?;
        self.lock().push(Watched { irqfd, token });
        Ok(())
    }

    /// Stops waiting for an irqfd, which is no longer assigned.
    pub fn remove(&self, id: EventId) {
        let watched = {
            let mut irqfds = self.lock();
            let index = irqfds.iter().position(|watched| watched.irqfd.id == id);
            index.map(|index| irqfds.swap_remove(index))
        };
        let Some(Watched { irqfd, token }) = watched else {
            return;
        };
        // A call that is still running finds that the irqfd is not assigned, and raises nothing.
        let _ = self.thread.remove(token);
        if let Some(vcpu) = *irqfd.wakes_vcpu() {
            let halt_fds = &self.guest.sandbox.halt_fds;
            halt_fds.remove_irqfd(vcpu, &irqfd.event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.irqfds.lock()
    }
}

impl Irqfd {
    fn wakes_vcpu(&self) -> MutexGuard<'_, Option<usize>> {
        self.wakes_vcpu.lock()
    }

    /// Raises the interrupt of this irqfd, which was signalled.
    fn raise(&self, guest: &UsermodeGuest) {
        let Some(interrupts) = &guest.interrupts else {
            return;
        };
        if let Some((vcpu, Notification::FutexWake | Notification::EventfdWrite)) =
            interrupts.poll(&guest.sandbox, self.id, &self.event)
        {
            self.wake_directly(guest, vcpu);
        }
    }

    /// Adds an irqfd that has woken a halted vCPU to the epoll descriptor of that vCPU, so that the next signal wakes
    /// the vCPU directly. If no descriptors are left, the thread keeps waking the vCPU and does not try again for that
    /// vCPU.
    fn wake_directly(&self, guest: &UsermodeGuest, vcpu: usize) {
        let mut wakes_vcpu = self.wakes_vcpu();
        if *wakes_vcpu == Some(vcpu) {
            return;
        }
        let sandbox = &guest.sandbox;
        let halt_fds = &sandbox.halt_fds;
        if let Some(former) = *wakes_vcpu {
            halt_fds.remove_irqfd(former, &self.event);
        }
        let (descriptors, process) = (&sandbox.descriptors, sandbox.process());
        let _ = halt_fds.add_irqfd(descriptors, process, &sandbox.control, vcpu, &self.event);
        *wakes_vcpu = Some(vcpu);
    }
}
