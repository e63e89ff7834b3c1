//! Why a function cannot be added to the bus.

use vmbell::bus::{BusError, BusRange};

/// Why a function cannot be added to the bus, or a BAR cannot be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PciError {
    /// All 32 slots are taken.
    #[error("no slot for {name}: all {slots} are taken")]
    NoSlot {
        /// The function.
        name: &'static str,
        /// How many slots there are.
        slots: usize,
    },
    /// The size of a BAR is not allowed.
    #[error(
        "BAR{bar} of {name}: a size of {size} bytes is not a power of two from {least} to {most}"
    )]
    Size {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The size.
        size: u64,
        /// The smallest size of a BAR of this kind.
        least: u64,
        /// The largest size.
        most: u64,
    },
    /// A 64-bit BAR has no register for its upper half: the BAR is in the last register, or the next register is used.
    #[error("BAR{bar} of {name} has no register for its upper half")]
    UpperHalf {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
    },
    /// The window has no room for a BAR.
    #[error("no room for BAR{bar} of {name}, {size} bytes, in {window}")]
    NoRoom {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The BAR's size in bytes or ports.
        size: u64,
        /// The window for BARs of this kind.
        window: BusRange,
    },
    /// The configuration ports cannot be added to the bus.
    #[error("cannot use the ports of PCI configuration")]
    Ports(#[from] BusError),
    /// A BAR overlaps RAM or other memory that is not on the bus.
    #[error(
        "BAR{bar} of {name} at {range} is over {reserved}, which is not free, and is not mapped"
    )]
    Reserved {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The addresses of the BAR.
        range: BusRange,
        /// The memory that the BAR overlaps.
        reserved: BusRange,
    },
    /// Another device has the addresses of a BAR.
    #[error("BAR{bar} of {name} clashes with another device")]
    Clash {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The overlap.
        source: BusError,
    },
}
