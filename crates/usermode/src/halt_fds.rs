//! The descriptors that halted vCPUs sleep on, so that a signal of an irqfd wakes the vCPU directly.
//!
//! A vCPU gets an epoll descriptor the first time that an irqfd wakes it. The descriptor watches that irqfd and the
//! vCPU's own wake eventfd, both edge-triggered, so that the next signal wakes the vCPU even if the eventfds are not
//! read. From then on the halted vCPU sleeps in `epoll_wait` ([`stub::layout::HaltFds`]). An irqfd may wake it before
//! the thread that reads the irqfd's count ([`super::irqfd_watcher`]) has raised the interrupt: then the vCPU sleeps
//! again until that thread writes to the wake eventfd.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, Release};

use stub::layout::{Control, MAX_VCPUS};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::descriptors::Descriptors;
use super::process::Process;
use vmbell_hypervisor::Error;

/// The descriptors of a sandbox's vCPUs. A vCPU's descriptors are made when they are first needed.
#[derive(Debug)]
pub struct HaltFdTable([OnceLock<HaltFds>; MAX_VCPUS]);

struct HaltFds {
    epoll: Epoll,
    wake_eventfd: EventFd,
}

impl Default for HaltFdTable {
    fn default() -> Self {
        Self([const { OnceLock::new() }; MAX_VCPUS])
    }
}

impl HaltFdTable {
    /// Wakes a vCPU that sleeps in `epoll_wait`.
    pub fn wake(&self, vcpu: usize) {
        if let Some(fds) = self.0[vcpu].get() {
            // The count is never read; it would take 2^64 writes to fill it.
            let _ = fds.wake_eventfd.write(1);
        }
    }

    /// Makes signals of `irqfd` wake the vCPU directly from here on. Fails if the sandbox cannot have another
    /// descriptor.
    pub fn add_irqfd(
        &self,
        descriptors: &Descriptors,
        process: &Process,
        control: &Control,
        vcpu: usize,
        irqfd: &EventFd,
    ) -> Result<(), Error> {
        if self.0[vcpu].get().is_none() {
            let fds = HaltFds::new()?;
            let purpose = format_args!("the sleep of vcpu {vcpu}");
            let wake_eventfd = descriptors.add(process, &fds.wake_eventfd, &purpose)?;
            let epoll = descriptors.add(process, &fds.epoll, &purpose)?;
            if self.0[vcpu].set(fds).is_ok() {
                let published = &control.halt_fds[vcpu];
                published.wake_eventfd.store(wake_eventfd, Relaxed);
                published.epoll.store(epoll, Release);
            }
        }
        match self.0[vcpu].get().map(|fds| fds.watch(irqfd)) {
            Some(Err(source)) => Err(Error::System {
                operation: "let an irqfd wake a vcpu",
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Removes an irqfd from a vCPU's epoll descriptor, so that its signals no longer wake the vCPU directly.
    pub fn remove_irqfd(&self, vcpu: usize, irqfd: &EventFd) {
        if let Some(fds) = self.0[vcpu].get() {
            // Cannot fail for a descriptor that was added and is still open.
            let _ = fds.epoll.ctl(
                ControlOperation::Delete,
                irqfd.as_raw_fd(),
                EpollEvent::default(),
            );
        }
    }
}

impl HaltFds {
    fn new() -> Result<Self, Error> {
        let epoll = Epoll::new().map_err(Error::system("make an epoll descriptor"))?;
        let wake_eventfd = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
        let fds = Self {
            epoll,
            wake_eventfd,
        };
        fds.watch(&fds.wake_eventfd)
            .map_err(Error::system("let an eventfd wake a vcpu"))?;
        Ok(fds)
    }

    fn watch(&self, event: &EventFd) -> io::Result<()> {
        let edges = EpollEvent::new(EventSet::IN | EventSet::EDGE_TRIGGERED, 0);
        self.epoll
            .ctl(ControlOperation::Add, event.as_raw_fd(), edges)
    }
}

impl fmt::Debug for HaltFds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaltFds")
            .field("wake_eventfd", &self.wake_eventfd)
            .finish_non_exhaustive()
    }
}
