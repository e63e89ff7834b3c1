//! Virtio devices (virtio 1.3), with split or packed rings in guest memory.
//!
//! A [`Handler`] does a device's work on each [`Request`], at once or later; or a worker does all of the work
//! ([`vhost`]). Either becomes a [`VirtioDevice`], which a transport shows to the driver: [`mmio`] as registers in
//! memory, [`pci`] as a function of a PCI bus. This module has what the transports share: the status, the choice of
//! features and the description of queues, which vCPU threads access, and the [`Queue`]. The thread that calls
//! [`Queue::serve`] serves a queue: the vCPU's thread if the driver notifies without a doorbell, a thread that waits
//! for a doorbell's eventfd, or a thread that polls.
//!
//! The driver is hostile: what it writes is checked before it is used, a queue that it breaks stays broken, [`Refusal`]
//! tells the VMM what the driver did wrong, and no thread serves a queue for longer than a budget.

#[cfg(test)]
mod answer_double;
mod blk;
mod combiner;
mod config;
mod console;
mod device;
mod driver;
mod host_io;
mod inverter;
mod live_ring;
pub mod mmio;
pub mod net;
pub mod pci;
mod queue;
mod request;
#[cfg(test)]
#[cfg(not(miri))]
mod reset_test;
mod ring;
mod rng;
mod saved;
mod server;
pub mod vhost;
#[cfg(test)]
mod worker_double;

pub use blk::{Disk, DiskError, DiskSerial, DiskSerialError};
pub use config::{Notify, Raise, VirtioConfig};
pub use console::{CONSOLE_QUEUES, Console, ConsoleReady};
pub use device::VirtioDevice;
pub use driver::{HandlerError, Refusal};
pub use inverter::Inverter;
pub use net::Net;
pub use queue::{Handler, Queue, Served};
pub use request::{Handled, Pending, Readable, Request, Slices, Writable};
pub use rng::Entropy;
