//! Host to guest: what a device or a thread needs of a guest to interrupt it.

use std::fmt;

use vmm_sys_util::eventfd::EventFd;

use super::Error;
use crate::irq::{Gsi, Msi, Route};

/// Registers irqfds and routes, drives lines and sends messages, from any thread. Every
/// [`Vm`](super::Vm) does.
pub trait Irqs: Send + Sync {
    /// From its return on, a signal of `event` raises `gsi`: an edge, or, with a `resample` eventfd,
    /// a level that stays until the guest's EOI, which signals `resample`. A count that is there
    /// already raises at once. Each eventfd can be one irqfd (Linux `Documentation/virt/kvm/api.rst`, 4.75).
    fn register_irqfd(
        &self,
        event: &EventFd,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<(), Error>;

    /// When it returns, `event` raises `gsi` no more. Not an error if it never did.
    fn unregister_irqfd(&self, event: &EventFd, gsi: Gsi) -> Result<(), Error>;

    /// What a device of this process signals `irqfd` with instead of a write to it.
    fn irq_trigger(&self, irqfd: &EventFd) -> Result<Box<dyn IrqTrigger>, Error>;

    /// Replaces the table that says where GSIs lead. The first one of
    /// [`Irqchip::Full`](super::Irqchip::Full) leads each GSI below 24 to the I/O APIC's pin of that number;
    /// that of [`Irqchip::Split`](super::Irqchip::Split) is empty.
    fn set_routing(&self, routes: &[Route]) -> Result<(), Error>;

    /// Drives a line. Nothing happens if its GSI leads nowhere or is at that level already.
    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error>;

    /// Sends a message, and says whether a vCPU took it.
    fn signal_msi(&self, msi: Msi) -> Result<bool, Error>;
}

/// Signals an irqfd, from any thread of this process. On a backend whose interrupt controllers are
/// here too it raises the interrupt on the calling thread; else it writes the eventfd.
pub trait IrqTrigger: Send + Sync + fmt::Debug {
    /// One signal. Nothing happens if the eventfd is no irqfd any more.
    fn signal(&self);
}

impl IrqTrigger for EventFd {
    fn signal(&self) {
        // A saturated counter is an interrupt that nobody has taken yet.
        let _ = self.write(1);
    }
}
