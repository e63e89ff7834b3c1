//! The errors of adding a range to a bus or removing it.

use super::BusRange;

/// A range that cannot be added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The range has a length of 0.
    #[error("range at {base:#x} has no length")]
    Empty {
        /// Its first address.
        base: u64,
    },
    /// The end of the range does not fit in 64 bits.
    #[error("range at {base:#x} of {len:#x} bytes runs past the end of the address space")]
    Wraps {
        /// Its first address.
        base: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Another device has a part of the range.
    #[error("range {new} overlaps {existing}, which is on the bus already")]
    Overlap {
        /// The range that was to be added.
        new: BusRange,
        /// The range on the bus that it overlaps.
        existing: BusRange,
    },
    /// The range that was to be removed is not on the bus.
    #[error("range {range} is not on the bus")]
    NotFound {
        /// The range.
        range: BusRange,
    },
}
