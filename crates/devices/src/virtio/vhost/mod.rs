//! Devices whose queues a worker serves, in the kernel (Linux `drivers/vhost`) or in another process (vhost-user). The
//! worker accesses the guest's memory without this process: a notification is a doorbell whose eventfd wakes the
//! worker, and the worker signals the eventfd that is the irqfd of the queue's vector. Where there is no such irqfd, as
//! on MMIO registers, a thread of the device passes the signal on.
//!
//! A [`Worker`] is the part that differs between types of device: [`VhostNet`], [`VhostVsock`] and [`VhostUserBlk`].
//! vCPU threads set it up when the driver is ready, and stop it at a reset.
//!
//! ```no_run
//! use vmbell::memory::GuestMemoryMmap;
//! use vmbell_devices::virtio::net::{Mac, Offloads, Tap};
//! use vmbell_devices::virtio::vhost::VhostNet;
//! use vmbell_devices::virtio::{VirtioConfig, VirtioDevice};
//!
//! /// A network device whose packets the kernel takes and gives.
//! fn net(memory: &GuestMemoryMmap, mac: Mac) -> Result<VirtioDevice, Box<dyn std::error::Error>> {
//!     let worker = VhostNet::open(memory, Tap::open("tap0")?, mac, Offloads::default())?;
//!     Ok(VirtioDevice::with_worker(worker, VirtioConfig::default()))
//! }
//! ```

mod error;
mod net;
mod server;
mod time_limit;
mod user;
mod vsock;

use std::os::fd::BorrowedFd;

use vhost::VhostBackend;

pub use error::{VhostError, VhostUserError};
pub use net::VhostNet;
pub(super) use server::Vhost;
pub use user::{Gone, OnGone, VhostUserBlk};
pub use vsock::{Cid, CidError, VhostVsock};

/// Claims a worker of the kernel for this process, and returns the worker's features.
fn take(kernel: &impl VhostBackend, device: &'static str) -> Result<u64, VhostError> {
    let refused = |operation| VhostError::refused(device, operation);
    kernel.set_owner().map_err(refused("serve this process"))?;
    kernel
        .get_features()
        .map_err(refused("report its features"))
}

/// The features of a device whose queues a worker serves.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerFeatures {
    /// The features that the device offers and the worker knows.
    pub known: u64,
    /// The other features that the device offers.
    pub others: u64,
    /// The features between the worker and this process, which no driver sees.
    pub own: u64,
}

/// The worker that serves the queues of one device.
pub trait Worker: Send + Sync {
    /// The device ID (virtio 1.3, 5).
    const DEVICE_ID: u32;
    /// The device's name, for messages.
    const NAME: &'static str;
    /// How many queues the device has.
    const QUEUES: u16;
    /// How many queues the worker serves, from the first on. The others are never served.
    const SERVED: u16;
    /// Whether the worker takes addresses of rings in this process, and not in the guest.
    const HOST_ADDRESSES: bool = false;

    /// The type that takes the descriptions of queues.
    type Backend: VhostBackend;

    /// Returns what takes the descriptions of queues.
    fn backend(&self) -> &Self::Backend;

    /// The worker's features, which do not change.
    fn features(&self) -> WorkerFeatures;

    /// The configuration that only this type of device has.
    fn config(&self) -> &[u8];

    /// Called when the driver has accepted these features.
    ///
    /// # Errors
    ///
    /// If the host does not support these features.
    fn accepted(&self, _features: u64) -> vhost::Result<()> {
        Ok(())
    }

    /// Starts or stops the service of queues that have been described.
    ///
    /// # Errors
    ///
    /// If the worker refuses the queues.
    fn set_running(&self, queues: &[usize], running: bool) -> vhost::Result<()>;

    /// Makes requests that belong together. They end after a bounded time even if the worker does not answer; a worker
    /// in the kernel answers at once.
    ///
    /// # Errors
    ///
    /// The error of the requests, or that the worker did not answer.
    fn request<T>(&self, requests: impl FnOnce() -> vhost::Result<T>) -> vhost::Result<T> {
        requests()
    }

    /// The descriptor that hangs up when the worker goes away; `None` for a worker in the kernel.
    fn connection(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called when the worker has gone away.
    fn gone(&self) {}
}
