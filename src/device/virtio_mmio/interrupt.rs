//! The device's interrupt: a reason in a register, and an eventfd that is an irqfd's trigger.

use std::sync::atomic::{AtomicU32, Ordering};

use vmm_sys_util::eventfd::EventFd;

/// A used buffer (virtio 1.3, 4.2.2).
const USED_BUFFER: u32 = 1 << 0;
/// The configuration has changed, or the device needs a reset.
const CONFIGURATION: u32 = 1 << 1;

/// Tells the driver that something happened, from any thread.
#[derive(Debug, Default)]
pub struct Interrupt {
    reasons: AtomicU32,
    trigger: Option<EventFd>,
}

impl Interrupt {
    /// Signals `trigger` for each interrupt; without one, only the register says so.
    pub fn new(trigger: Option<EventFd>) -> Self {
        Self {
            reasons: AtomicU32::new(0),
            trigger,
        }
    }

    pub(super) fn used_buffer(&self) {
        self.raise(USED_BUFFER);
    }

    pub(super) fn configuration(&self) {
        self.raise(CONFIGURATION);
    }

    /// The reason first, so that a driver that is interrupted finds it.
    fn raise(&self, reason: u32) {
        self.reasons.fetch_or(reason, Ordering::Release);
        if let Some(trigger) = &self.trigger {
            // A saturated counter is an interrupt that nobody has taken yet.
            let _ = trigger.write(1);
        }
    }

    pub(super) fn reasons(&self) -> u32 {
        self.reasons.load(Ordering::Acquire)
    }

    pub(super) fn acknowledge(&self, reasons: u32) {
        self.reasons.fetch_and(!reasons, Ordering::AcqRel);
    }

    pub(super) fn reset(&self) {
        self.reasons.store(0, Ordering::Release);
    }
}
