//! The kernel's own request, `struct kvm_irqfd`, read by the kernel's own rules.
//!
//! The order of the checks is that of `kvm_irqfd` in Linux `virt/kvm/eventfd.c`, because it decides
//! which error a doubly bad request gets.

use std::os::fd::RawFd;

use super::IrqError;
use crate::eventfd::EventId;

/// Remove instead of register.
pub const FLAG_DEASSIGN: u32 = 1 << 0;
/// A level that an EOI takes down, with [`KvmIrqfd::resamplefd`] to tell of it.
pub const FLAG_RESAMPLE: u32 = 1 << 1;

/// The argument of `KVM_IRQFD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KvmIrqfd {
    /// The eventfd.
    pub fd: RawFd,
    /// What it raises. Any number is good; most lead nowhere.
    pub gsi: u32,
    /// `FLAG_*`.
    pub flags: u32,
    /// The eventfd that an EOI signals, if the flags say so.
    pub resamplefd: RawFd,
    /// Never looked at.
    pub pad: [u8; 16],
}

/// Who delivers the guest's interrupts, as far as irqfds ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nobody.
    Nothing,
    /// Local APICs.
    Lapics,
    /// Local APICs and the I/O APIC.
    All,
}

/// A request that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Remove instead of register.
    pub deassign: bool,
    /// The eventfd.
    pub event: EventId,
    /// What it raises.
    pub gsi: u32,
    /// The eventfd that an EOI signals.
    pub resample: Option<EventId>,
}

impl KvmIrqfd {
    /// Checks everything that needs no other irqfd.
    pub fn parse(&self, below: Below) -> Result<Request, IrqError> {
        let flags = self.flags & !(FLAG_DEASSIGN | FLAG_RESAMPLE);
        if flags != 0 {
            return Err(IrqError::Flags { flags });
        }
        let deassign = self.flags & FLAG_DEASSIGN != 0;
        let resample = self.flags & FLAG_RESAMPLE != 0 && !deassign;
        if !deassign {
            match below {
                Below::Nothing => return Err(IrqError::NoIrqchip),
                Below::Lapics if resample => return Err(IrqError::NoResample),
                _ => {}
            }
        }
        let event = EventId::of_raw(self.fd)?;
        let resample = resample.then(|| EventId::of_raw(self.resamplefd));
        Ok(Request {
            deassign,
            event,
            gsi: self.gsi,
            resample: resample.transpose()?,
        })
    }
}

// Miri has no /proc/self/fdinfo, where an eventfd says which it is.
#[cfg(test)]
#[cfg(not(miri))]
#[path = "abi_test.rs"]
mod tests;
