//! The descriptors that halted vCPUs sleep on, so that a signal of an irqfd wakes the vCPU directly.
//!
//! A vCPU gets an epoll descriptor the first time that an irqfd has woken it. The descriptor watches that irqfd
//! and an eventfd of the vCPU's own, its bell, both edge-triggered, so that the next signal wakes the vCPU even
//! if the eventfds are not read. From then on the halted vCPU sleeps in `epoll_wait`
//! ([`stub::layout::HaltSet`]). An irqfd may wake it before the thread that takes the irqfd's count
//! ([`super::irqchip`]) has raised the interrupt: then the vCPU sleeps again until that thread rings the bell.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release};

use stub::layout::MAX_VCPUS;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::Error;
use super::sandbox::Sandbox;

/// The halt sets of a sandbox's vCPUs. Each is made when it is first needed.
#[derive(Debug)]
pub struct Halts([OnceLock<HaltSet>; MAX_VCPUS]);

struct HaltSet {
    epoll: Epoll,
    bell: EventFd,
}

impl Default for Halts {
    fn default() -> Self {
        Self([const { OnceLock::new() }; MAX_VCPUS])
    }
}

impl Halts {
    /// Wakes a vCPU that sleeps on its halt set.
    pub fn ring(&self, vcpu: usize) {
        if let Some(set) = self.0[vcpu].get() {
            // The count of a bell is never taken; 2^64 rings do not happen.
            let _ = set.bell.write(1);
        }
    }

    /// Lets a signal of `irqfd` wake the vCPU from here on. Fails if the sandbox can have no further
    /// descriptor.
    pub fn add(&self, sandbox: &Sandbox, vcpu: usize, irqfd: &EventFd) -> Result<(), Error> {
        if self.0[vcpu].get().is_none() {
            let set = HaltSet::new()?;
            let purpose = format_args!("the sleep of vcpu {vcpu}");
            let bell = sandbox.descriptors.add(&set.bell, &purpose)?;
            let epoll = sandbox.descriptors.add(&set.epoll, &purpose)?;
            if self.0[vcpu].set(set).is_ok() {
                let published = &sandbox.control.halt_sets[vcpu];
                published.bell.store(bell, Relaxed);
                published.epoll.store(epoll, Release);
            }
        }
        match self.0[vcpu].get().map(|set| set.watch(irqfd)) {
            Some(Err(source)) => Err(Error::System {
                operation: "let an irqfd wake a vcpu",
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Takes an irqfd out of a vCPU's halt set, so that its signals no longer wake the vCPU.
    pub fn remove(&self, vcpu: usize, irqfd: &EventFd) {
        if let Some(set) = self.0[vcpu].get() {
            // Cannot fail for a descriptor that was added and is still open.
            let _ = set.epoll.ctl(
                ControlOperation::Delete,
                irqfd.as_raw_fd(),
                EpollEvent::default(),
            );
        }
    }
}

impl HaltSet {
    fn new() -> Result<Self, Error> {
        let epoll = Epoll::new().map_err(Error::system("make an epoll descriptor"))?;
        let bell = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
        let set = Self { epoll, bell };
        set.watch(&set.bell)
            .map_err(Error::system("let a bell wake a vcpu"))?;
        Ok(set)
    }

    fn watch(&self, event: &EventFd) -> io::Result<()> {
        let edges = EpollEvent::new(EventSet::IN | EventSet::EDGE_TRIGGERED, 0);
        self.epoll
            .ctl(ControlOperation::Add, event.as_raw_fd(), edges)
    }
}

impl fmt::Debug for HaltSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaltSet")
            .field("bell", &self.bell)
            .finish_non_exhaustive()
    }
}
