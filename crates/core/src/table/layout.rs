//! The [table](super) in memory: its parts, its size, the flags of its words, and the buckets and chunks, one cache
//! line each. Both the monitor and the sandbox map it.

#[cfg(not(any(loom, vmbell_stub_elf)))]
use alloc::alloc::{Layout, alloc_zeroed, handle_alloc_error};
#[cfg(not(vmbell_stub_elf))]
use alloc::boxed::Box;
#[cfg(loom)]
use core::array::from_fn;
use core::fmt;

use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::{AtomicU32, AtomicU64};

/// Flag of a code: the code names a list of signals.
pub const GROUP: u32 = 1 << 31;
/// Flag of a cell: a doorbell has a datamatch.
pub const MATCH: u32 = 1 << 30;
/// Flag of a signal, and of the code that holds it: the signal is the index of a payload. The written value is stored
/// in that payload before the payload's eventfd is signalled.
pub const PAYLOAD: u32 = 1 << 29;
/// The other bits of a code: a signal plus 1, or the index of a list's first chunk. 0 means no signal.
pub const CODE: u32 = PAYLOAD - 1;
/// The largest signal number that a code can hold.
pub const MAX_SIGNAL: u32 = CODE - 1;

// Miri checks every atomic of a table at each reference to the table, so its table is small.
#[cfg(not(loom))]
pub(super) const BITS: u32 = if cfg!(miri) { 1 } else { 14 };
// Loom tracks every atomic of a table, so its table is small.
#[cfg(loom)]
pub(super) const BITS: u32 = 1;

/// Buckets of each hash table, without overflow buckets.
pub const BUCKETS: usize = 1 << BITS;
/// Overflow buckets of each hash table. The first one is never used.
///
/// There is one for each entry. An overflow bucket in use holds at least one entry, so the buckets cannot run out
/// before the entries do.
pub const OVERFLOWS: usize = if cfg!(loom) { 4 } else { MAX_ADDRESSES };
/// Chunks of signal lists. The first one is never used.
pub const CHUNKS: usize = if cfg!(loom) { 4 } else { 2 * MAX_ADDRESSES };

/// Cells of an address: one each for widths 1, 2, 4 and 8, and one for all other widths.
pub const CELLS: usize = 5;

/// The maximum number of addresses that can have a doorbell.
pub const MAX_ADDRESSES: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 4,
    (_, true) => 16,
    _ => 16_384,
};
/// The maximum number of datamatch values: the number of distinct values at each address and width, added up.
pub const MAX_MATCHES: usize = MAX_ADDRESSES;
/// The maximum number of signals of one list.
pub const MAX_ITEMS: usize = MAX_CHAIN * ListChunk::CODES;
/// The maximum number of chunks of one list.
pub(super) const MAX_CHAIN: usize = 128;

// The size that the comments and the documentation state.
const _: () = assert!(size_of::<Table>() == 8 << 20 || cfg!(miri) || cfg!(loom));
const _: () = assert!(size_of::<Table>().is_multiple_of(4096) || cfg!(loom));
const _: () = assert!(size_of::<AddressBucket>() == 64 || cfg!(loom));
const _: () = assert!(size_of::<MatchBucket>() == 64 || cfg!(loom));
const _: () = assert!(size_of::<ListChunk>() == 64 || cfg!(loom));

/// The address space of a guest's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An I/O port.
    Pio,
    /// A guest-physical address.
    Mmio,
    /// A number in the first argument of a hypercall, which counts as a write of 8 bytes.
    Hypercall,
}

/// The table in memory.
///
/// A cell is stored after its address and loaded before it: a reader that sees a new cell also sees its address. In the
/// same way, the offset of a value's cell is stored after the value and its code, and loaded before them. Buckets and
/// chunks that a change unlinks are reused only after a grace period.
#[repr(C, align(4096))]
pub struct Table {
    /// Second hash table, by the cell's offset and the value. It is the first field, so it is at the table's address.
    pub matches: [MatchBucket; BUCKETS],
    /// First hash table, by address, for I/O ports.
    pub pio: [AddressBucket; BUCKETS],
    /// First hash table for guest-physical addresses.
    pub mmio: [AddressBucket; BUCKETS],
    /// First hash table for hypercall numbers.
    pub hypercall: [AddressBucket; BUCKETS],
    /// Overflow buckets of the first hash table.
    pub address_overflows: [AddressBucket; OVERFLOWS],
    /// Overflow buckets of the second hash table.
    pub match_overflows: [MatchBucket; OVERFLOWS],
    /// The signal lists of codes with [`GROUP`].
    pub chunks: [ListChunk; CHUNKS],
}

impl Table {
    /// An empty table on the heap, for vCPU threads of this process. The kernel backs only pages that are used.
    #[cfg(not(any(loom, vmbell_stub_elf)))]
    #[allow(unsafe_code)]
    pub fn boxed() -> Box<Self> {
        let layout = Layout::new::<Self>();
        // SAFETY: the layout is not empty.
        let table = unsafe { alloc_zeroed(layout) }.cast::<Self>();
        if table.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: `table` was allocated just above with the layout of a `Table`, for which zeroes are valid, and
        // nothing else has the pointer: the box owns it until it is dropped.
        unsafe { Box::from_raw(table) }
    }

    /// An empty table for the model checker, whose atomics have to be constructed.
    #[cfg(loom)]
    pub fn boxed() -> Box<Self> {
        Box::new(Self {
            matches: from_fn(|_| MatchBucket::default()),
            pio: from_fn(|_| AddressBucket::default()),
            mmio: from_fn(|_| AddressBucket::default()),
            hypercall: from_fn(|_| AddressBucket::default()),
            address_overflows: from_fn(|_| AddressBucket::default()),
            match_overflows: from_fn(|_| MatchBucket::default()),
            chunks: from_fn(|_| ListChunk::default()),
        })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The table's fields are 8 MiB of words, so they are not printed.
        f.write_str("Table")
    }
}

/// The result of looking for a key in one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The only slot of the bucket that can hold the key.
    pub slot: usize,
    /// Whether the slot holds the key, with or without signals.
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
    /// The cells, for each width and slot.
    pub cells: [[AtomicU32; 2]; CELLS],
    /// The addresses.
    pub addresses: [AtomicU64; 2],
    /// The link to the overflow bucket that follows.
    pub link: AtomicU32,
}

impl AddressBucket {
    /// The only slot that can hold an address: the second one, unless the first one has the address.
    ///
    /// Chooses without a branch, because no predictor could guess which slot it is.
    #[inline(always)]
    pub fn slot(&self, addr: u64) -> usize {
        usize::from(self.addresses[0].load(Relaxed) != addr)
    }

    /// Looks for an address in this bucket. `width` is the index of the cell ([`super::cell_index`]).
    #[inline(always)]
    pub fn probe(&self, addr: u64, width: usize) -> Probe {
        let slot = self.slot(addr);
        // The cell is loaded before the key: a reader that sees a new cell also sees its key.
        let code = self.cells[width][slot].load(Acquire);
        let holds = self.addresses[slot].load(Relaxed) == addr;
        Probe { slot, holds, code }
    }

    /// The next overflow bucket, or 0.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.link.load(Acquire) as usize
    }
}

/// A bucket of the second hash table: two values.
///
/// A slot is in use if its cell is not 0; an unused slot may have a stale value. A bucket never holds the same value
/// twice, even for two cells.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
pub struct MatchBucket {
    /// The values.
    pub values: [AtomicU64; 2],
    /// The offset of each value's cell in the table ([`Table::offset`](super::Table::offset)); 0 in an unused slot.
    pub cell_offsets: [AtomicU32; 2],
    /// The codes.
    pub codes: [AtomicU32; 2],
    /// The link to the overflow bucket that follows.
    pub link: AtomicU32,
}

impl MatchBucket {
    /// The only slot of this bucket that can hold a value.
    #[inline(always)]
    pub fn slot(&self, value: u64) -> usize {
        usize::from(self.values[0].load(Relaxed) != value)
    }

    /// Looks in this bucket for the value of the cell at `cell_offset`.
    #[inline(always)]
    pub fn probe(&self, cell_offset: u32, value: u64) -> Probe {
        let slot = self.slot(value);
        // The cell is loaded first: a reader that sees a new cell also sees its value and code.
        let cell = self.cell_offsets[slot].load(Acquire) == cell_offset;
        let holds = cell && self.values[slot].load(Relaxed) == value;
        let code = self.codes[slot].load(Acquire);
        Probe { slot, holds, code }
    }

    /// The next overflow bucket, or 0.
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
    /// Word 0 is the link to the next chunk; each other word is a signal plus 1, or 0 for a hole.
    pub words: [AtomicU32; 16],
}

impl ListChunk {
    /// Signals in one chunk.
    pub const CODES: usize = 15;
}
