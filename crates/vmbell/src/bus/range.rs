//! A range of addresses, which is never empty and never wraps, and the errors of adding it to a bus or removing it.

use std::fmt;
use std::time::Duration;

/// A range of addresses from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BusRange {
    first: u64,
    last: u64,
}

impl BusRange {
    /// The range of `len` addresses from `base` on; an error if `len` is 0 or the end does not fit in 64 bits.
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

    /// The base-2 logarithm of the length, rounded down.
    pub(super) const fn len_log2(self) -> u32 {
        // The sum does not overflow: `new` takes a length of 64 bits, so no range is the whole space.
        (self.last - self.first + 1).ilog2()
    }

    /// Whether the two ranges have an address in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for BusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.first, self.last)
    }
}

/// A range that cannot be added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// The range has a length of 0.
    #[error("range at {base:#x} has no length")]
    Empty {
        /// The first address of the range.
        base: u64,
    },
    /// The end of the range does not fit in 64 bits.
    #[error("range at {base:#x} of {len:#x} bytes runs past the end of the address space")]
    Wraps {
        /// The first address of the range.
        base: u64,
        /// The length of the range in bytes.
        len: u64,
    },
    /// The range overlaps the range of another device.
    #[error("range {new} overlaps {existing}, which is on the bus already")]
    Overlap {
        /// The range that was to be added.
        new: BusRange,
        /// The range on the bus that the new range overlaps.
        existing: BusRange,
    },
    /// The range that was to be removed is not on the bus.
    #[error("range {range} is not on the bus")]
    NotFound {
        /// The range.
        range: BusRange,
    },
    /// The range is off the bus, but a handler that began before the removal still runs.
    #[error("a handler still runs {limit:?} after range {range} was removed")]
    StillRuns {
        /// The range.
        range: BusRange,
        /// How long the removal has waited.
        limit: Duration,
    },
}
