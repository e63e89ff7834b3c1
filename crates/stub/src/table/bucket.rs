//! The buckets and chunks of the [table](super), one cache line each.

use super::CELLS;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// The result of a look for a key in one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The only slot of the bucket that can hold the key.
    pub slot: usize,
    /// Whether the slot holds the key, even if without signals.
    pub holds: bool,
    /// The slot's cell or code, valid if `holds`.
    pub code: u32,
}

/// A bucket of the first hash table: two addresses.
///
/// A slot is in use if one of its cells is not 0; an unused slot may have a stale address.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct AddressBucket {
    /// The addresses.
    pub addresses: [AtomicU64; 2],
    /// The cells, for each width and slot.
    pub cells: [[AtomicU32; 2]; CELLS],
    /// The link to the overflow bucket that follows.
    pub link: AtomicU32,
}

impl AddressBucket {
    /// The slot that holds an address if a slot of this bucket does: the second unless it is the first.
    ///
    /// There is no branch, because no predictor could guess which of the two it is.
    #[inline(always)]
    pub fn slot(&self, addr: u64) -> usize {
        usize::from(self.addresses[0].load(Relaxed) != addr)
    }

    /// Looks for an address in this bucket. `width` is the index of the cell ([`super::cell_index`]).
    #[inline(always)]
    pub fn probe(&self, addr: u64, width: usize) -> Probe {
        let slot = self.slot(addr);
        // The cell is loaded before the key: a reader that sees a new cell sees its key.
        let code = self.cells[width][slot].load(Acquire);
        let holds = self.addresses[slot].load(Relaxed) == addr;
        Probe { slot, holds, code }
    }

    /// The overflow bucket that follows, or 0.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.link.load(Acquire) as usize
    }
}

/// A bucket of the second hash table: two values.
///
/// A slot is in use if its code is not 0; an unused slot may have a stale key. No bucket holds one value
/// twice, even for two cells.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct MatchBucket {
    /// The values.
    pub values: [AtomicU64; 2],
    /// The cell of each value: see [`Table::cell_offset`](super::Table::cell_offset).
    pub cell_offsets: [AtomicU32; 2],
    /// The codes.
    pub codes: [AtomicU32; 2],
    /// The link to the overflow bucket that follows.
    pub link: AtomicU32,
}

impl MatchBucket {
    /// The slot that holds a value if a slot of this bucket does.
    #[inline(always)]
    pub fn slot(&self, value: u64) -> usize {
        usize::from(self.values[0].load(Relaxed) != value)
    }

    /// Looks in this bucket for the value of the cell at `cell_offset`.
    #[inline(always)]
    pub fn probe(&self, cell_offset: u32, value: u64) -> Probe {
        let slot = self.slot(value);
        let code = self.codes[slot].load(Acquire);
        let values = self.values[slot].load(Relaxed) == value;
        let holds = values && self.cell_offsets[slot].load(Relaxed) == cell_offset;
        Probe { slot, holds, code }
    }

    /// The overflow bucket that follows, or 0.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.link.load(Acquire) as usize
    }
}

/// A chunk of a signal list.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct ListChunk {
    /// Word 0 is the link to the chunk that follows; each other one is a signal plus 1, or 0 for a hole.
    pub words: [AtomicU32; 16],
}

impl ListChunk {
    /// Signals in one chunk.
    pub const CODES: usize = 15;
}
