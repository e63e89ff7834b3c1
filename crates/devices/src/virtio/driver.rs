//! What the threads that serve a device know about its driver: its memory, how to interrupt it, and what it did wrong.
//! A [`Refusal`] may also be a failure of the device itself, or of the worker that serves its queues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vm_memory::{GuestAddress, GuestMemoryError, GuestMemoryMmap};
use vmbell::eventfd::EventFd;
use vmbell::sync::Mutex;
use vmbell_virtqueue::{QueueError, SetupError, UsedError};

/// Why a device cannot handle a chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// A buffer of the chain is not all in guest memory.
    #[error("a buffer at {address:#x} is not in guest memory", address = address.0)]
    Outside {
        /// The address of the buffer.
        address: GuestAddress,
        /// Which part of the buffer is not in guest memory.
        source: GuestMemoryError,
    },
    /// The chain is too short for any request of this device, so that it has no room for an answer.
    #[error("a request of {readable} bytes with room for an answer of {writable} is too short")]
    Short {
        /// Bytes that the device may read.
        readable: usize,
        /// Bytes that the device may write.
        writable: usize,
    },
    /// The host could not do what the device needs.
    #[error("the host could not {operation}")]
    Host {
        /// What the host could not do.
        operation: &'static str,
        /// The host's error.
        source: io::Error,
    },
}

/// Why a device refused a write, or stopped. The driver sees only a status bit; the VMM can log this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The driver chose a feature that is not offered, or did not choose `VIRTIO_F_VERSION_1`.
    #[error("features {chosen:#x} were chosen where {offered:#x} are offered")]
    Features {
        /// What the driver chose.
        chosen: u64,
        /// What the device offers.
        offered: u64,
    },
    /// The driver cleared a bit of the status; only a reset may do so (virtio 1.3, 2.1.1).
    #[error("status {new:#x} clears bits of {old:#x}")]
    StatusCleared {
        /// The status before the write.
        old: u8,
        /// What the driver wrote.
        new: u8,
    },
    /// The driver set DRIVER_OK without FEATURES_OK (virtio 1.3, 3.1.1).
    #[error("DRIVER_OK without FEATURES_OK")]
    DriverOkTooEarly,
    /// A queue was made ready before features were negotiated or after DRIVER_OK.
    #[error("queue {queue} was made ready at status {status:#x}")]
    ReadyOutOfTurn {
        /// Index of the queue.
        queue: u16,
        /// The status then.
        status: u8,
    },
    /// A queue is larger than the device allows.
    #[error("queue {queue} was given {size} descriptors: the most is {most}")]
    Size {
        /// Index of the queue.
        queue: u16,
        /// What the driver wrote.
        size: u32,
        /// The limit.
        most: u16,
    },
    /// A queue cannot be set up with the driver's size and addresses.
    #[error("queue {queue} cannot be set up")]
    Setup {
        /// Index of the queue.
        queue: u16,
        /// Why the set-up failed.
        source: SetupError,
    },
    /// The driver wrote an impossible value to a ring.
    #[error("queue {queue} is broken")]
    Broken {
        /// Index of the queue.
        queue: u16,
        /// What is wrong with the ring.
        source: QueueError,
    },
    /// A chain could not be given back.
    #[error("cannot give a chain of queue {queue} back")]
    Used {
        /// Index of the queue.
        queue: u16,
        /// Why the chain could not be given back.
        source: UsedError,
    },
    /// The device could not handle a chain.
    #[error("cannot handle a chain of queue {queue}")]
    Handler {
        /// Index of the queue.
        queue: u16,
        /// Why the chain could not be handled.
        source: HandlerError,
    },
    /// The device's own code panicked.
    #[error("the device panicked: {message}")]
    Panicked {
        /// The text of the panic.
        message: String,
    },
    /// The worker found something in a queue that makes no sense.
    #[error("a queue makes no sense to the worker that serves it")]
    BrokenForWorker,
    /// The worker has gone, so the queues are not served.
    #[error("the worker that serves the queues has gone")]
    WorkerGone,
    /// The worker could not do what the device needs.
    #[error("the worker could not {operation}")]
    Worker {
        /// What the worker could not do.
        operation: &'static str,
        /// The error of the request to the worker.
        source: vhost::Error,
    },
}

impl Refusal {
    /// Whether the device cannot continue without a reset (virtio 1.3, 2.1.2).
    pub(super) const fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Features { .. }
                | Self::ReadyOutOfTurn { .. }
                | Self::Size { .. }
                | Self::Setup { .. }
        )
    }
}

/// What a server knows about the driver.
#[derive(Clone)]
pub(super) struct DriverSide {
    /// Where the queues and their buffers are.
    pub(super) memory: Arc<GuestMemoryMmap>,
    /// How the driver is interrupted.
    pub(super) interrupts: Arc<dyn Interrupts>,
    /// Receives the driver's mistakes.
    pub(super) trouble: Arc<Trouble>,
}

/// How a transport interrupts the driver. Called by the threads that serve queues, and by vCPU threads.
pub(super) trait Interrupts: Send + Sync {
    /// Interrupts because the device has used a buffer of this queue.
    fn used_buffer(&self, queue: u16);

    /// The eventfd whose signal interrupts for this queue without a thread of this process, as long as the driver does
    /// not change the device's interrupts. Defaults to none.
    fn irqfd(&self, _queue: u16) -> Option<Arc<EventFd>> {
        None
    }

    /// Interrupts because the configuration has changed, or the device needs a reset.
    fn configuration(&self);

    /// Drops the interrupts that the driver has not received or not acknowledged, because the device is reset.
    fn reset(&self);
}

/// The last refusal, for the VMM, and whether the driver must reset the device.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    last: Mutex<Option<Refusal>>,
    needs_reset: AtomicBool,
}

impl Trouble {
    pub(super) fn note(&self, refusal: Refusal) {
        if refusal.is_fatal() {
            self.needs_reset.store(true, Ordering::Release);
        }
        *self.last.lock() = Some(refusal);
    }

    pub(super) fn take(&self) -> Option<Refusal> {
        let mut last = self.last.lock();
        last.take()
    }

    pub(super) fn needs_reset(&self) -> bool {
        self.needs_reset.load(Ordering::Acquire)
    }

    /// Called at a reset: the driver need not reset the device any more. The last refusal is kept for the VMM.
    pub(super) fn over(&self) {
        self.needs_reset.store(false, Ordering::Release);
    }
}
