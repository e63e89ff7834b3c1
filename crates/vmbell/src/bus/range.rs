//! A range of addresses, never empty, never wrapping.

use std::fmt;

use super::BusError;

/// From a first to a last address, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BusRange {
    first: u64,
    last: u64,
}

impl BusRange {
    /// `len` addresses from `base` on.
    pub const fn new(base: u64, len: u64) -> Result<Self, BusError> {
        if len == 0 {
            return Err(BusError::Empty { base });
        }
        match base.checked_add(len - 1) {
            Some(last) => Ok(Self { first: base, last }),
            None => Err(BusError::Wraps { base, len }),
        }
    }

    /// The first address.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// The last address.
    pub const fn last(self) -> u64 {
        self.last
    }

    /// The logarithm of the length, rounded down.
    pub(super) const fn len_log2(self) -> u32 {
        // A length is 64 bits: no range is all of the address space.
        (self.last - self.first + 1).ilog2()
    }

    /// Whether some address is in both.
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for BusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.first, self.last)
    }
}
