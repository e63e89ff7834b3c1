//! The device's interrupt (virtio 1.3, 4.2.2): a reason in a register, and the trigger of an irqfd.
//!
//! The driver acknowledges each used buffer with a write of 1, for which nobody has to wake: it can be a
//! [doorbell](Interrupt::acknowledge_by_doorbell). Its eventfd counts acknowledgements that the register
//! does not know of yet. They are *settled*, by clearing the reason, before the reason is set anew, before
//! the register is read, and at a reset; one lock makes each of these one step with its settling.
//!
//! The driver cannot tell that from a register that is cleared at once:
//! - What it reads, on any vCPU, is settled, with every acknowledgement that returned before the read began.
//! - An acknowledgement before a new reason is set does not clear that one, because raising settles first.
//! - One that comes between that settling and the next clears the new reason, be it a moment before that
//!   was set. It raced with it, and a register may be written behind the new reason as well. Nothing is
//!   lost by it: the chain was used before its reason was raised, so a driver that looks at the ring after
//!   it has acknowledged, as it must with every device, finds the chain. The interrupt comes anyway.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::hypervisor::IrqTrigger;

/// A used buffer: what is written to acknowledge by doorbell, too.
const USED_BUFFER: u32 = 1 << 0;
/// The configuration has changed, or the device needs a reset.
const CONFIGURATION: u32 = 1 << 1;

/// Tells the driver that something happened, from any thread.
#[derive(Debug, Default)]
pub struct Interrupt {
    reasons: Mutex<u32>,
    trigger: Option<Box<dyn IrqTrigger>>,
    acknowledged: Option<EventFd>,
}

impl Interrupt {
    /// What a driver writes to [`INTERRUPT_ACK`](super::register::INTERRUPT_ACK), 4 bytes wide, that
    /// rings the doorbell of [`acknowledge_by_doorbell`](Self::acknowledge_by_doorbell). Other values
    /// must come to the register.
    pub const ACKNOWLEDGE: u32 = USED_BUFFER;

    /// Signals `trigger` for each interrupt; without one, only the register says so.
    pub fn new(trigger: Option<Box<dyn IrqTrigger>>) -> Self {
        Self {
            trigger,
            ..Self::default()
        }
    }

    /// Makes the eventfd that a write of [`ACKNOWLEDGE`](Self::ACKNOWLEDGE) can signal instead of coming
    /// to the register, for registration.
    ///
    /// # Errors
    ///
    /// If the process can have no more descriptors.
    pub fn acknowledge_by_doorbell(&mut self) -> io::Result<EventFd> {
        let event = EventFd::new(EFD_NONBLOCK)?;
        self.acknowledged = Some(event.try_clone()?);
        Ok(event)
    }

    pub(super) fn used_buffer(&self) {
        self.raise(USED_BUFFER);
    }

    pub(super) fn configuration(&self) {
        self.raise(CONFIGURATION);
    }

    /// The reason first, so that a driver that is interrupted finds it.
    fn raise(&self, reason: u32) {
        *self.settled() |= reason;
        if let Some(trigger) = &self.trigger {
            trigger.signal();
        }
    }

    pub(super) fn reasons(&self) -> u32 {
        *self.settled()
    }

    pub(super) fn acknowledge(&self, reasons: u32) {
        *self.settled() &= !reasons;
    }

    pub(super) fn reset(&self) {
        *self.settled() = 0;
    }

    /// The reasons, less what was acknowledged by doorbell.
    fn settled(&self) -> MutexGuard<'_, u32> {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken under the lock: an acknowledgement that one thread has taken off the eventfd must not
        // clear a reason that another has set since.
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

#[cfg(test)]
#[path = "tests/interrupt.rs"]
mod tests;
