//! The number of an interrupt line, before routing says where it leads.

use std::fmt;

use super::IrqError;

/// A global system interrupt: the number that devices and irqfds know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gsi(u32);

impl Gsi {
    /// GSIs are below it, and there are at most as many routes (Linux `KVM_MAX_IRQ_ROUTES`).
    pub const LIMIT: u32 = 4096;

    /// A GSI; refused from [`LIMIT`](Self::LIMIT) on.
    pub const fn new(gsi: u32) -> Result<Self, IrqError> {
        if gsi < Self::LIMIT {
            Ok(Self(gsi))
        } else {
            Err(IrqError::Gsi { gsi })
        }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gsi {}", self.0)
    }
}
