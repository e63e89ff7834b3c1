//! What the threads that serve a device know of its driver: its memory, how to interrupt it, and what it did wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vm_memory::GuestMemoryMmap;
use vmbell::eventfd::EventFd;
use vmbell::sync::Mutex;

use super::refusal::Refusal;

/// What a server knows of the driver.
#[derive(Clone)]
pub(super) struct DriverSide {
    /// Where the queues and their buffers are.
    pub(super) memory: Arc<GuestMemoryMmap>,
    /// How the driver is interrupted.
    pub(super) interrupts: Arc<dyn Interrupts>,
    /// The receiver of the driver's mistakes.
    pub(super) trouble: Arc<Trouble>,
}

/// How a transport interrupts the driver. It is called by the thread that serves a queue, and by that of a vCPU.
pub(super) trait Interrupts: Send + Sync {
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

    /// Called at a reset: the driver need not reset any more. The last refusal stays for the VMM.
    pub(super) fn over(&self) {
        self.needs_reset.store(false, Ordering::Release);
    }
}
