//! What halted vCPUs sleep in, so that whoever signals an irqfd wakes the vCPU itself.
//!
//! A vCPU is made an epoll descriptor when an irqfd has woken it for the first time, with that irqfd and a
//! bell in it, all by their edges: nobody need read them for the next signal to wake. From then on a
//! halted vCPU sleeps there ([`stub::layout::HaltSet`]). It wakes while the thread that takes the irqfd's
//! count ([`super::irqchip`]) still works, and finds the interrupt raised, or sleeps on until the bell
//! says so.

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

/// The halt sets of a sandbox's vCPUs, as far as they were made.
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
    /// Wakes a vCPU that sleeps in its halt set.
    pub fn ring(&self, vcpu: usize) {
        if let Some(set) = self.0[vcpu].get() {
            // Its count is never taken, and 2^64 rings do not come to pass.
            let _ = set.bell.write(1);
        }
    }

    /// A signal of `irqfd` wakes the vCPU from here on.
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

    /// Takes an irqfd out of a vCPU's halt set: its signals wake the vCPU no more.
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
