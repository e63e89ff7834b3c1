//! The irqfds of a guest, and their resamplefds, which the ack of a GSI signals (Linux `irqfd_resampler_ack`). If the
//! stub cannot signal them, the monitor does, on a vCPU's thread.

use std::sync::Arc;

use vmbell::eventfd::Signaller;
use vmbell::irq::Gsi;
use vmbell::sync::Mutex;
use vmm_sys_util::eventfd::EventFd;

/// An irqfd: its GSI and its resamplefd.
#[derive(Debug)]
pub struct Irqfd {
    /// The GSI that a signal raises.
    pub gsi: Gsi,
    /// The resamplefd, if there is one. With a resamplefd a signal raises the line until the ack; without it a signal
    /// is an edge.
    pub resampler: Option<Arc<Resampler>>,
}

/// The resamplefd of an irqfd.
#[derive(Debug)]
pub struct Resampler {
    event: EventFd,
    /// The resamplefd's descriptor in the sandbox; never 0.
    descriptor: u32,
    /// Whether the irqfd was removed. Locked while the monitor signals the resamplefd, so that a removal waits for it.
    is_removed: Mutex<bool>,
}

impl Resampler {
    /// Makes a resamplefd whose number in the sandbox is `descriptor`.
    pub fn new(event: EventFd, descriptor: u32) -> Self {
        Self {
            event,
            descriptor,
            is_removed: Mutex::new(false),
        }
    }

    /// Returns the resamplefd's descriptor in the sandbox.
    pub fn descriptor(&self) -> u32 {
        self.descriptor
    }

    /// Acks for the monitor: signals the resamplefd, unless the irqfd was removed. It does not wait if the count is
    /// full, because the guest may fill it.
    pub fn ack(&self, signaller: &Signaller) {
        let is_removed = self.is_removed.lock();
        if !*is_removed {
            signaller.signal(&self.event);
        }
    }

    /// Marks the irqfd as removed. Once this returns, the monitor no longer signals the resamplefd.
    pub fn retire(&self) {
        *self.is_removed.lock() = true;
    }
}
