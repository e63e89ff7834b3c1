//! Virtio devices (virtio 1.3), with split or packed rings in guest memory.
//!
//! A [`Handler`] does a device's work on a [`Request`], at once or later; or a worker does all of it ([`vhost`]). Either is a
//! [`VirtioDevice`], which a transport shows to its driver: [`mmio`] on registers in memory, [`pci`] as a function of a PCI bus. What the transports have in
//! common is here: the status, the choice of features and the description of queues, which vCPU threads access, and the
//! [`Queue`], which is served by the thread that calls [`Queue::serve`]: the vCPU's thread if the driver notifies and
//! there is no doorbell, a thread that waits for a doorbell's eventfd, or a thread that polls.
//!
//! The driver is hostile: what it writes is checked before it is used, a queue that it breaks stays
//! broken, [`Refusal`] reports what the driver did wrong to the VMM, and no thread serves a queue for longer than a
//! budget.

#[cfg(test)]
mod answer_double;
mod blk;
mod coalescing;
mod config;
mod console;
mod control;
mod device;
mod features;
mod host_io;
mod inverter;
mod live_ring;
pub mod mmio;
pub mod net;
mod notification;
pub mod pci;
mod poller;
mod queue;
mod queues;
mod refusal;
mod request;
#[cfg(test)]
#[cfg(not(miri))]
mod reset_test;
mod ring;
mod rng;
mod server;
mod slices;
pub mod vhost;
#[cfg(test)]
mod worker_double;

use std::sync::Arc;

use vmbell::eventfd::EventFd;

pub use blk::{Disk, DiskError, DiskSerial, DiskSerialError};
pub use config::{Notify, Raise, VirtioConfig};
pub use console::{CONSOLE_QUEUES, Console, ConsoleReady};
pub use device::VirtioDevice;
pub use inverter::Inverter;
pub use net::Net;
pub use queue::{Handler, HandlerError, Queue, Served};
pub use refusal::Refusal;
pub use request::{Buffers, Handled, Pending, Request};
pub use rng::Entropy;
pub use slices::{Readable, Slices, Writable};

/// How a transport interrupts the driver. It is called by the thread that serves a queue, and by that of a vCPU.
trait Interrupts: Send + Sync {
    /// The device has used a buffer of this queue.
    fn used_buffer(&self, queue: u16);

    /// The eventfd whose signal is the interrupt of this queue without a thread of this process, as long as the driver
    /// does not change the device's interrupts. Defaults to none.
    fn irqfd(&self, _queue: u16) -> Option<Arc<EventFd>> {
        None
    }

    /// The configuration has changed, or the device needs a reset.
    fn configuration(&self);

    /// Forgets the interrupts that the driver has not got or not acknowledged: the device is reset.
    fn reset(&self);
}
