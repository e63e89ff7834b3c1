//! The transport on PCI (virtio 1.3, 4.1): a modern device, without the legacy interface.
//!
//! [`VirtioPci`] is a function whose BAR in memory has the common configuration, the notifications, the interrupt
//! status and MSI-X. It may also have the notifications at I/O ports. vCPU threads access it, and each queue has its
//! own address for notifications. With [`Notify::Doorbell`] the address is a doorbell: a notification does not leave
//! the kernel, and a thread that sleeps on the doorbell's eventfd serves the queue. With [`Notify::Poll`] that thread
//! also polls for a while. With [`Notify::Exit`] the vCPU's thread serves the queue itself. Each MSI-X vector to which
//! the driver gives a message is an irqfd with a route, or is sent by a call ([`Raise`]).
//!
//! ```
//! use std::sync::Arc;
//! use vmbell_devices::pci::PciRoot;
//! use vmbell_devices::virtio::pci::{GuestParts, VirtioPci};
//! use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
//!
//! /// Puts an entropy device on the bus of a guest.
//! fn add(root: &PciRoot, guest: GuestParts) -> Result<(), Box<dyn std::error::Error>> {
//!     let device = VirtioDevice::new(Entropy, 1, VirtioConfig::default());
//!     root.add(Arc::new(VirtioPci::new(device, guest)?))?;
//!     Ok(())
//! }
//! ```

mod bells;
mod common;
mod function;
mod interrupts;
mod layout;

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmbell::bus::Backlog;
use vmbell_hypervisor::{Error, IoEvents};

#[cfg(doc)]
use super::config::{Notify, Raise};
use crate::pci::Routes;

pub use function::VirtioPci;

/// A function that is called if a doorbell or an interrupt cannot be set up, on the thread that failed.
pub type OnError = Arc<dyn Fn(Error) + Send + Sync>;

/// What a device needs from its machine.
#[derive(Clone)]
pub struct GuestParts {
    /// The guest's RAM, where the queues are.
    pub memory: GuestMemoryMmap,
    /// Where doorbells are registered.
    pub events: Arc<dyn IoEvents>,
    /// The routes of the guest's messages.
    pub routes: Arc<Routes>,
    /// The machine's backlog: it continues the service of a notification that exceeds the budget.
    pub backlog: Backlog,
    /// Called with each error.
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
