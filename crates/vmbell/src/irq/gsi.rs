//! GSIs: the numbers of interrupt lines, which routes lead to pins or messages.

use std::fmt;

use super::IrqError;

/// A global system interrupt: the number by which devices and irqfds name an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gsi(u32);

impl Gsi {
    /// All GSIs are below this number, and a table has at most this many routes (Linux `KVM_MAX_IRQ_ROUTES`).
    pub const LIMIT: u32 = 4096;

    /// The GSI with this number. Fails with [`IrqError::Gsi`] from [`LIMIT`](Self::LIMIT) on.
    pub const fn new(gsi: u32) -> Result<Self, IrqError> {
        if gsi < Self::LIMIT {
            Ok(Self(gsi))
        } else {
            Err(IrqError::Gsi { gsi })
        }
    }

    /// The number of the GSI.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gsi {}", self.0)
    }
}
