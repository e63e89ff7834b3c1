//! What serves the queues of a device while its driver runs: a [`Handler`](super::Handler) on threads of this process
//! ([`Queues`](super::queues::Queues)), a worker of the kernel or another process ([`vhost`](super::vhost)). A transport,
//! on the vCPUs' threads, starts and stops it, and sees no difference.

use std::sync::Arc;

use vmbell::eventfd::EventFd;

use super::notification::LastNotification;
use super::queue::Queue;
use super::refusal::Refusal;
use super::ring::QueueRegisters;

/// What a device is, which does not change.
#[derive(Debug)]
pub(super) struct DeviceInfo {
    /// The device ID (virtio 1.3, 5).
    pub(super) id: u32,
    /// The device's name, for messages.
    pub(super) name: &'static str,
    /// How many queues the device has.
    pub(super) queues: u16,
    /// All features that are offered, those of the rings among them.
    pub(super) features: u64,
    /// The configuration that only this type of device has.
    pub(super) config: Box<[u8]>,
}

/// Serves the queues of one device.
pub(super) trait Server: Send + Sync {
    /// Fails if a queue cannot be served with these features. They were accepted.
    fn check(&self, index: u16, registers: &QueueRegisters, features: u64) -> Result<(), Refusal>;

    /// Serves those queues that are ready, which were [checked](Self::check), from now on.
    fn start(&self, features: u64, queues: &[QueueRegisters]) -> Result<(), Refusal>;

    /// Stops all queues: after the return, no thread accesses a ring.
    fn stop(&self);

    /// Stops one queue.
    fn stop_queue(&self, index: u16);

    /// The eventfd whose signal notifies a queue; `None` if a notification has to be a [call](Self::notify).
    fn kick(&self, index: u16) -> Option<&Arc<EventFd>>;

    /// Where the doorbell goes that stores what the driver says with its notifications; `None` for a server that does not
    /// offer `VIRTIO_F_NOTIFICATION_DATA`.
    fn notification(&self, _index: u16) -> Option<&LastNotification> {
        None
    }

    /// Handles a notification on the calling vCPU's thread, which must not hold the registers.
    fn notify(&self, index: u16);

    /// The queues that a thread of the VMM may serve; none if another process or the kernel serves them.
    fn queues(&self) -> &[Arc<Queue>] {
        &[]
    }
}
