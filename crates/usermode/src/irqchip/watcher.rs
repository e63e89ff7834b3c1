//! The thread that waits for irqfds that other processes or threads signal; one for each guest that has irqfds.
//!
//! An eventfd cannot send a signal to a vCPU, so a thread has to wait for it and raise the interrupt. If an
//! irqfd has woken a halted vCPU once, its next signal wakes that vCPU directly ([`super::super::halt_fds`]), while
//! this thread raises the interrupt, on a CPU that no vCPU is bound to if there is one.
//!
//! The thread keeps each eventfd open, so it never sees a hang-up: KVM drops an irqfd that all others have
//! closed, but here such an irqfd stays until it is removed. Devices of this process do not need the thread,
//! since they raise their interrupts directly.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use stub::vcpu_mode::Notification;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::thread::{allowed_cpus, bind};
use super::super::vm::Guest;
use vmbell::eventfd::EventId;
use vmbell::thread::{self, ThreadKind};
use vmbell_hypervisor::Error;

/// The thread, and the irqfds that it waits for.
#[derive(Debug)]
pub struct IrqfdWatcher {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Waiting {
    guest: Arc<Guest>,
    epoll: Epoll,
    /// The irqfds by the number that epoll reports for them; 0 is `stop`.
    irqfds: Mutex<Irqfds>,
    stop: EventFd,
}

#[derive(Debug, Default)]
struct Irqfds {
    last: u64,
    events: HashMap<u64, Irqfd>,
}

#[derive(Clone, Debug)]
struct Irqfd {
    id: EventId,
    event: Arc<EventFd>,
    /// The vCPU whose epoll descriptor has this irqfd, or could not take it.
    wakes_vcpu: Option<usize>,
}

const STOP: u64 = 0;

impl IrqfdWatcher {
    /// Starts the thread, which holds `guest` until the watcher is dropped.
    pub fn start(guest: Arc<Guest>) -> Result<Self, Error> {
        let stop = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
        let epoll = Epoll::new().map_err(Error::system("make an epoll descriptor"))?;
        let entry = EpollEvent::new(EventSet::IN, STOP);
        let added = epoll.ctl(ControlOperation::Add, stop.as_raw_fd(), entry);
        added.map_err(Error::system("wait for an eventfd"))?;
        let mut cpus = allowed_cpus().map_err(Error::system("read the cpus of this thread"))?;
        cpus.retain(|cpu| !guest.vcpu_cpus.contains(cpu));
        let waiting = Arc::new(Waiting {
            guest,
            epoll,
            irqfds: Mutex::default(),
            stop,
        });
        let here = Arc::clone(&waiting);
        let run = move || {
            if !cpus.is_empty() {
                // A failure only costs time: on a vCPU's CPU, this thread and the vCPU have to take turns.
                let _ = bind(None, &cpus);
            }
            here.run();
        };
        let thread = thread::spawn(ThreadKind::Device, "vmbell-irqfds", run)
            .map_err(Error::system("start the irqfd thread"))?;
        Ok(Self {
            waiting,
            thread: Some(thread),
        })
    }

    /// Waits for one more irqfd. Fails if epoll cannot take the eventfd.
    pub fn add(&self, id: EventId, event: &Arc<EventFd>) -> Result<(), Error> {
        let mut irqfds = self.waiting.lock();
        let number = irqfds.last + 1;
        let entry = EpollEvent::new(EventSet::IN, number);
        let epoll = &self.waiting.epoll;
        epoll
            .ctl(ControlOperation::Add, event.as_raw_fd(), entry)
            .map_err(Error::system("wait for an irqfd"))?;
        irqfds.last = number;
        let irqfd = Irqfd {
            id,
            event: Arc::clone(event),
            wakes_vcpu: None,
        };
        irqfds.events.insert(number, irqfd);
        Ok(())
    }

    /// Stops waiting for an irqfd.
    pub fn remove(&self, id: EventId) {
        let mut irqfds = self.waiting.lock();
        let number = irqfds.events.iter().find(|(_, irqfd)| irqfd.id == id);
        let number = number.map(|(number, _)| *number);
        let Some(irqfd) = number.and_then(|number| irqfds.events.remove(&number)) else {
            return;
        };
        let (delete, entry) = (ControlOperation::Delete, EpollEvent::default());
        // Cannot fail for a descriptor that was added and is still open.
        let _ = self
            .waiting
            .epoll
            .ctl(delete, irqfd.event.as_raw_fd(), entry);
        if let Some(vcpu) = irqfd.wakes_vcpu {
            self.waiting
                .guest
                .sandbox
                .halt_fds
                .remove_irqfd(vcpu, &irqfd.event);
        }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Irqfds> {
        self.irqfds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut ready = [EpollEvent::default(); 32];
        loop {
            let count = match self.epoll.wait(-1, &mut ready) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No other error is possible with an open descriptor and a valid buffer.
                Err(_) => return,
            };
            for entry in &ready[..count] {
                match entry.data() {
                    STOP => return,
                    number => self.raise_irqfd(number),
                }
            }
        }
    }

    /// Raises the interrupt of an irqfd that was signalled.
    fn raise_irqfd(&self, number: u64) {
        let found = self.lock().events.get(&number).cloned();
        let (Some(irqfd), Some(interrupts)) = (found, &self.guest.interrupts) else {
            return;
        };
        match interrupts.poll(&self.guest.sandbox, irqfd.id, &irqfd.event) {
            Some((vcpu, Notification::FutexWake | Notification::EventfdWrite))
                if irqfd.wakes_vcpu != Some(vcpu) =>
            {
                self.wake_directly(number, vcpu);
            }
            _ => {}
        }
    }

    /// Puts an irqfd that has woken a halted vCPU into the epoll descriptor of that vCPU, so that the next signal wakes
    /// it directly. If that fails, for want of descriptors, this thread goes on waking the vCPU and does not
    /// try again for it.
    fn wake_directly(&self, number: u64, vcpu: usize) {
        let mut irqfds = self.lock();
        let Some(irqfd) = irqfds.events.get_mut(&number) else {
            return;
        };
        let halt_fds = &self.guest.sandbox.halt_fds;
        if let Some(former) = irqfd.wakes_vcpu {
            halt_fds.remove_irqfd(former, &irqfd.event);
        }
        let _ = halt_fds.add_irqfd(&self.guest.sandbox, vcpu, &irqfd.event);
        irqfd.wakes_vcpu = Some(vcpu);
    }
}

impl Drop for IrqfdWatcher {
    fn drop(&mut self) {
        // A saturated eventfd is readable too.
        let _ = self.waiting.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
