//! The transport on PCI (virtio 1.3, 4.1): a modern device, without the legacy interface.
//!
//! [`VirtioPci`] is a function whose one BAR has the common configuration, the notifications, the interrupt status and
//! MSI-X; vCPU threads access it. Each queue has its own address for notifications. With [`Notify::Doorbell`] the address
//! is a doorbell, and a thread that sleeps on its eventfd serves the queue, so that a notification does not leave the
//! kernel; with [`Notify::Exit`] it comes to the vCPU's thread, which serves the queue itself. Each vector of MSI-X that
//! the driver gives a message is an irqfd with a route, or is sent by a call ([`Raise`]).

mod bells;
mod common;
mod function;
mod interrupts;
mod layout;
mod messages;
mod window;

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;

pub use function::VirtioPci;

use crate::bus::Backlog;
use crate::device::pci::Routes;
use crate::hypervisor::{Error, IoEvents};

/// How a driver's notifications reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// By a doorbell, whose eventfd wakes the device's thread.
    #[default]
    Doorbell,
    /// By an exit of the vCPU, on whose thread the queue is served.
    Exit,
}

/// How the device's messages reach the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Raise {
    /// By an irqfd, whose GSI has the message as its route.
    #[default]
    Irqfd,
    /// By a call for each message.
    Call,
}

/// The choices of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioPciConfig {
    /// How notifications come.
    pub notify: Notify,
    /// How interrupts go.
    pub raise: Raise,
    /// Whether the driver may choose packed rings.
    pub packed: bool,
}

/// A function that is called if a doorbell or an interrupt cannot be set up, on the thread on which it happens.
pub type OnError = Arc<dyn Fn(Error) + Send + Sync>;

/// What a device needs of its machine.
#[derive(Clone)]
pub struct GuestParts {
    /// The guest's RAM, where the queues are.
    pub memory: GuestMemoryMmap,
    /// Where doorbells are registered.
    pub events: Arc<dyn IoEvents>,
    /// The routes of the guest's messages.
    pub routes: Arc<Routes>,
    /// The machine's: it continues the service of a notification that exceeds the budget.
    pub backlog: Backlog,
    /// Who is told of errors.
    pub on_error: OnError,
}

impl std::fmt::Debug for GuestParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestParts")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;
