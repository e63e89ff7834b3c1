//! The device's interrupt (virtio 1.3, 4.2.2): the register InterruptStatus, and the trigger of an irqfd.
//!
//! The driver acknowledges a used buffer notification by writing 1 to InterruptACK. No thread needs to wake for that,
//! so the write can be a [doorbell](Interrupt::acknowledge_by_doorbell). Its eventfd counts the acknowledgements that
//! the register does not have yet. They are *applied*, by clearing the register's bit, before the bit is set again,
//! before the register is read, and at a reset. Each of these happens in one step with the application, under a lock.
//!
//! The driver cannot distinguish this from a register that is cleared at once:
//! - A read of the register, on any vCPU, first applies every acknowledgement that returned before the read.
//! - An acknowledgement before the bit is set again does not clear the new bit, because it is applied first.
//! - A later acknowledgement clears the new bit at the next application, even if it came a moment before the bit was
//!   set. The two raced, and a write to the register could also have come after the new bit. Nothing is lost: the chain
//!   was used before the bit was set. A driver must look at the ring after its acknowledgement, with every device, and
//!   so it finds the chain. The interrupt is raised anyway.

use std::io;
use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::virtio::driver::Interrupts;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::IrqTrigger;

/// Used buffer notification; also the value that the driver writes to the doorbell.
const USED_BUFFER: u32 = 1 << 0;
/// Configuration change notification, also sent if the device needs a reset.
const CONFIGURATION: u32 = 1 << 1;

/// The device's interrupt, which any thread may raise.
#[derive(Debug)]
pub struct Interrupt {
    reasons: Mutex<u32>,
    trigger: Option<Box<dyn IrqTrigger>>,
    acknowledged: Option<Arc<EventFd>>,
}

impl Interrupt {
    /// The value of a 4-byte write to [`INTERRUPT_ACK`](super::register::INTERRUPT_ACK) that
    /// [`acknowledge_by_doorbell`](Self::acknowledge_by_doorbell) takes. Writes of other values must reach the
    /// register.
    pub const ACKNOWLEDGE: u32 = USED_BUFFER;

    /// Creates an interrupt that signals `trigger`, such as an irqfd.
    pub fn new(trigger: Box<dyn IrqTrigger>) -> Self {
        Self {
            trigger: Some(trigger),
            ..Self::none()
        }
    }

    /// Creates no interrupt: only the register is set, for a driver that polls.
    pub fn none() -> Self {
        Self {
            reasons: Mutex::new(0),
            trigger: None,
            acknowledged: None,
        }
    }

    /// Creates the eventfd of the doorbell for writes of [`ACKNOWLEDGE`](Self::ACKNOWLEDGE). The doorbell is registered
    /// by [`register_doorbells`](super::VirtioMmio::register_doorbells) or by the caller.
    ///
    /// # Errors
    ///
    /// If the process cannot have more file descriptors.
    pub fn acknowledge_by_doorbell(&mut self) -> io::Result<Arc<EventFd>> {
        let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
        self.acknowledged = Some(Arc::clone(&event));
        Ok(event)
    }

    /// The eventfd of acknowledgements, if they come through a doorbell.
    pub(super) const fn acknowledged(&self) -> Option<&Arc<EventFd>> {
        self.acknowledged.as_ref()
    }

    /// Sets the bit before it raises the interrupt, so that the driver finds the bit set.
    fn raise(&self, reason: u32) {
        *self.lock_reasons() |= reason;
        if let Some(trigger) = &self.trigger {
            trigger.signal();
        }
    }

    pub(super) fn reasons(&self) -> u32 {
        *self.lock_reasons()
    }

    pub(super) fn acknowledge(&self, reasons: u32) {
        *self.lock_reasons() &= !reasons;
    }

    /// Locks the reasons, after it has applied the acknowledgements that came through the doorbell.
    fn lock_reasons(&self) -> MutexGuard<'_, u32> {
        let mut reasons = self.reasons.lock();
        // The eventfd is read under the lock: an acknowledgement that this thread reads must not clear a reason that
        // another thread sets after the read.
        if self
            .acknowledged
            .as_ref()
            .is_some_and(|event| event.read().is_ok())
        {
            *reasons &= !USED_BUFFER;
        }
        reasons
    }
}

/// One interrupt for all queues.
impl Interrupts for Interrupt {
    fn used_buffer(&self, _queue: u16) {
        self.raise(USED_BUFFER);
    }

    fn configuration(&self) {
        self.raise(CONFIGURATION);
    }

    fn reset(&self) {
        *self.lock_reasons() = 0;
    }
}

#[cfg(test)]
#[path = "tests/interrupt.rs"]
mod tests;
