//! Devices whose queues a worker of the kernel serves (Linux `drivers/vhost`), in the guest's memory and without this
//! process: a notification is a doorbell whose eventfd wakes the worker, and the worker signals the eventfd that is the
//! irqfd of the queue's vector.
//!
//! A [`Worker`] is what a type of device has of its own: [`VhostNet`] and [`VhostVsock`]. The threads of vCPUs set it up when
//! the driver is ready, and stop it at a reset.

mod error;
mod net;
mod server;
mod vsock;

use vhost::VhostBackend;

pub use error::VhostError;
pub use net::VhostNet;
pub(super) use server::Vhost;
pub use vsock::{Cid, CidError, VhostVsock};

/// What serves the queues of one device.
pub trait Worker: Send + Sync {
    /// The device ID (virtio 1.3, 5).
    const DEVICE_ID: u32;
    /// The device's name, for messages.
    const NAME: &'static str;
    /// How many queues the device has.
    const QUEUES: u16;
    /// How many of them the worker serves, from the first on. Nothing ever happens on the others.
    const SERVED: u16;

    /// Who takes the descriptions of queues.
    type Backend: VhostBackend;

    /// Who takes the descriptions of queues.
    fn backend(&self) -> &Self::Backend;

    /// The features that the worker knows, of all that the device offers.
    fn known(&self) -> u64;

    /// The other features that the device offers.
    fn others(&self) -> u64 {
        0
    }

    /// The configuration that only this type of device has.
    fn config(&self) -> &[u8];

    /// The driver has accepted these features.
    ///
    /// # Errors
    ///
    /// If the host cannot do what they ask for.
    fn accepted(&self, _features: u64) -> vhost::Result<()> {
        Ok(())
    }

    /// Begins or ends the service of queues that were described.
    ///
    /// # Errors
    ///
    /// If the worker does not take them.
    fn set_running(&self, queues: &[usize], running: bool) -> vhost::Result<()>;
}
