//! The cache lines that the table is made of. The monitor writes them, vCPU threads read them.

use super::CELLS;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// What a slot says about a key.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// Which slot it is.
    pub slot: usize,
    /// Whether it holds the key, maybe with nobody to signal.
    pub holds: bool,
    /// Whom it signals, if so.
    pub code: u32,
}

/// One line of the first hash: two addresses.
///
/// A slot is in use if one of its cells is not 0; the address of a slot that is not may be stale.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct AddressBucket {
    /// The addresses.
    pub addresses: [AtomicU64; 2],
    /// For each width and slot the wildcards' code and the flags.
    pub cells: [[AtomicU32; 2]; CELLS],
    /// Index of the overflow bucket that follows; 0 is none.
    pub link: AtomicU32,
}

impl AddressBucket {
    /// No entry.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "parts of a table come with it")]
    pub const fn new() -> Self {
        Self {
            addresses: [const { AtomicU64::new(0) }; 2],
            cells: [const { [const { AtomicU32::new(0) }; 2] }; CELLS],
            link: AtomicU32::new(0),
        }
    }

    /// The slot that holds an address if any here does: the second unless it is the first.
    ///
    /// Without a branch, because which of the two it is is as good as random.
    #[inline(always)]
    pub fn slot(&self, addr: u64) -> usize {
        usize::from(self.addresses[0].load(Relaxed) != addr)
    }

    /// Looks for an address in this line.
    #[inline(always)]
    pub fn guess(&self, addr: u64, width: usize) -> Guess {
        let slot = self.slot(addr);
        // In this order: a code that is new has a key that is.
        let code = self.cells[width][slot].load(Acquire);
        let holds = self.addresses[slot].load(Relaxed) == addr;
        Guess { slot, holds, code }
    }

    /// The overflow bucket that follows, or 0.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.link.load(Acquire) as usize
    }
}

/// One line of the second hash: two values.
///
/// A slot is in use if its code is not 0; the key of a slot that is not may be stale. No line holds
/// one value twice, even for two places.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct MatchBucket {
    /// The values.
    pub values: [AtomicU64; 2],
    /// Whose: see [`Table::place`](super::Table::place).
    pub places: [AtomicU32; 2],
    /// The code of all items that a write of this value signals, wildcards included.
    pub codes: [AtomicU32; 2],
    /// Index of the overflow bucket that follows; 0 is none.
    pub link: AtomicU32,
}

impl MatchBucket {
    /// No entry.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "parts of a table come with it")]
    pub const fn new() -> Self {
        Self {
            values: [const { AtomicU64::new(0) }; 2],
            places: [const { AtomicU32::new(0) }; 2],
            codes: [const { AtomicU32::new(0) }; 2],
            link: AtomicU32::new(0),
        }
    }

    /// The slot that holds a value if any here does.
    #[inline(always)]
    pub fn slot(&self, value: u64) -> usize {
        usize::from(self.values[0].load(Relaxed) != value)
    }

    /// Looks for a value in this line.
    #[inline(always)]
    pub fn guess(&self, place: u32, value: u64) -> Guess {
        let slot = self.slot(value);
        let code = self.codes[slot].load(Acquire);
        let values = self.values[slot].load(Relaxed) == value;
        let holds = values && self.places[slot].load(Relaxed) == place;
        Guess { slot, holds, code }
    }

    /// The overflow bucket that follows, or 0.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.link.load(Acquire) as usize
    }
}

/// One line of a signal list.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct ListChunk {
    /// Word 0 is the index of the chunk that follows, or 0; the others are signal numbers plus
    /// one, or 0 for a hole.
    pub words: [AtomicU32; 16],
}

impl ListChunk {
    /// Signals in one chunk.
    pub const CODES: usize = 15;

    /// No signal.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "parts of a table come with it")]
    pub const fn new() -> Self {
        Self {
            words: [const { AtomicU32::new(0) }; 16],
        }
    }
}
