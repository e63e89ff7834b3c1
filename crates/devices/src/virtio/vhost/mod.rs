//! Devices whose queues a worker serves, of the kernel (Linux `drivers/vhost`) or in another process (vhost-user), in
//! the guest's memory and without this process: a notification is a doorbell whose eventfd wakes the worker, and the
//! worker signals the eventfd that is the irqfd of the queue's vector. Where there is no such irqfd, as on MMIO
//! registers, a thread of the device hands the signal on.
//!
//! A [`Worker`] is the part that differs between types of device: [`VhostNet`], [`VhostVsock`] and [`VhostUserBlk`]. The
//! threads of vCPUs set it up when the driver is ready, and stop it at a reset.
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

/// Takes a worker of the kernel for this process, and returns the features that it has.
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
    /// Those that the device offers and the worker knows.
    pub known: u64,
    /// The others that the device offers.
    pub others: u64,
    /// Those between the worker and this process, which no driver sees.
    pub own: u64,
}

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
    /// Whether it takes the addresses of rings as those in this process, and not as the guest's.
    const HOST_ADDRESSES: bool = false;

    /// Who takes the descriptions of queues.
    type Backend: VhostBackend;

    /// Who takes the descriptions of queues.
    fn backend(&self) -> &Self::Backend;

    /// The features, which do not change.
    fn features(&self) -> WorkerFeatures;

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

    /// Makes requests that belong together. They end within a bound even if the worker does not answer; a worker of the
    /// kernel answers at once.
    ///
    /// # Errors
    ///
    /// The error of the requests, or that there was no answer.
    fn request<T>(&self, requests: impl FnOnce() -> vhost::Result<T>) -> vhost::Result<T> {
        requests()
    }

    /// What hangs up when the worker goes; a worker of the kernel does not.
    fn connection(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The worker has gone.
    fn gone(&self) {}
}
