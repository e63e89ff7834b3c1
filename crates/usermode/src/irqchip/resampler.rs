//! A resamplefd, which the ack of a GSI signals (Linux `irqfd_resampler_ack`). The stub signals it by its
//! descriptor in the sandbox, the monitor by its own, on the vCPU's thread.

use std::sync::{Mutex, PoisonError};

use vmm_sys_util::eventfd::EventFd;

use vmbell::eventfd::Signaller;

/// The resamplefd of an irqfd.
#[derive(Debug)]
pub struct Resampler {
    event: EventFd,
    /// Its descriptor in the sandbox; never 0.
    descriptor: u32,
    /// Whether the irqfd was removed. Locked while the monitor signals the resamplefd, so that a removal waits for it.
    is_removed: Mutex<bool>,
}

impl Resampler {
    /// A resamplefd whose number in the sandbox is `descriptor`.
    pub fn new(event: EventFd, descriptor: u32) -> Self {
        Self {
            event,
            descriptor,
            is_removed: Mutex::new(false),
        }
    }

    /// Its descriptor in the sandbox.
    pub fn descriptor(&self) -> u32 {
        self.descriptor
    }

    /// The monitor's ack: signals the resamplefd, unless the irqfd was removed. It does not wait for room in the count,
    /// which the guest may fill.
    pub fn ack(&self, signaller: &Signaller) {
        let is_removed = self
            .is_removed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_removed {
            signaller.signal(&self.event);
        }
    }

    /// Once this returns, the monitor no longer signals the resamplefd.
    pub fn retire(&self) {
        *self
            .is_removed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
    }
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "resampler_test.rs"]
mod tests;
