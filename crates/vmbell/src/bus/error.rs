//! Why a range cannot be put on a bus or taken off.

use super::BusRange;

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// A range of nothing.
    #[error("range at {base:#x} has no length")]
    Empty {
        /// Its start.
        base: u64,
    },
    /// The end does not fit in 64 bits.
    #[error("range at {base:#x} of {len:#x} bytes runs past the end of the address space")]
    Wraps {
        /// Its start.
        base: u64,
        /// Its length.
        len: u64,
    },
    /// Another device answers part of it.
    #[error("range {new} overlaps {existing}, which is on the bus already")]
    Overlap {
        /// The range that was to be added.
        new: BusRange,
        /// The range that is in its way.
        existing: BusRange,
    },
    /// Nothing to take off.
    #[error("range {range} is not on the bus")]
    NotFound {
        /// The range.
        range: BusRange,
    },
}
