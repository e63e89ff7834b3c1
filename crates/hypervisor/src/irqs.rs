//! Interrupts from host to guest: the trait with which a device or a thread interrupts a guest, and the trait for
//! forwarded interrupts of assigned devices.
//!
//! The guest's EOI of a forwarded interrupt completes the physical interrupt, without an eventfd or a thread.

use std::fmt;
use std::sync::Arc;

use vmbell::irq::{ForwardedLine, Gsi, Msi, Route};
use vmm_sys_util::eventfd::EventFd;

use super::error::Error;
use super::registration::Irqfd;

/// Registers irqfds, sets routes, drives lines and sends messages, from any thread. Every [`Vm`](super::Vm)
/// implements it.
pub trait Irqs: Send + Sync {
    /// Registers an irqfd: once this returns, a signal of `event` raises `gsi`, until the returned value is removed or
    /// dropped. Without a `resample` eventfd the interrupt is an edge; with one it is a level that stays up until the
    /// guest's EOI, which signals `resample`. If the count of `event` is already above 0, the GSI is raised at once. An
    /// eventfd can be only one irqfd of a guest (Linux `Documentation/virt/kvm/api.rst`, 4.75).
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error>;

    /// Replaces the table of GSI routes. Initially [`Irqchip::Full`](super::Irqchip::Full) routes each GSI to the pin
    /// with the same number, and [`Irqchip::Split`](super::Irqchip::Split) has no routes.
    fn set_routing(&self, routes: &[Route]) -> Result<(), Error>;

    /// Sets the level of a line. If the route of the GSI is a message, each call with `level` true sends it. A call for
    /// a GSI without a route does nothing.
    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error>;

    /// Forwards a level-triggered line: the guest's EOI also ends the interrupt for the caller, without a host thread.
    /// The caller checks for the end through the [`ForwardedLine`]. Needs
    /// [`Capability::ForwardedLines`](super::Capability::ForwardedLines).
    ///
    /// Dropping the returned value ends the forwarding, even while an interrupt is in service. The guest ends that
    /// interrupt as on any other line, and takes another if the line was raised again in the meantime. Afterwards the
    /// line works as it did before the forwarding.
    ///
    /// Fails if the GSI is routed to no pin or to a pin that the guest has made edge-triggered, if it has a resampling
    /// irqfd, or if it is forwarded already ([`IrqError`](vmbell::irq::IrqError)).
    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error>;

    /// Sends a message-signalled interrupt, and returns whether the controller of a vCPU accepted it.
    fn signal_msi(&self, msi: Msi) -> Result<bool, Error>;
}

/// A device interrupt that is forwarded to the guest until this value is dropped. After that, VFIO's eventfds deliver
/// the interrupt again, even if the guest has not ended it.
pub trait ForwardedInterrupt: Send + Sync + fmt::Debug {
    /// Returns what the interrupt has done since it was forwarded.
    fn state(&self) -> Result<ForwardedState, Error>;
}

/// What a forwarded interrupt has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedState {
    /// Physical interrupts that the guest received.
    pub injected: u64,
    /// Physical interrupts that were not forwarded; 0 unless something is wrong.
    pub signalled: u64,
    /// Whether the guest has an interrupt that it has not ended.
    pub is_active: bool,
}
