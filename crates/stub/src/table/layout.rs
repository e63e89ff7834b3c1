//! The [table](super) in memory: its parts, its size and the flags of its words. Both the monitor and the sandbox map it.

#[cfg(not(any(loom, vmbell_stub_elf)))]
use alloc::alloc::{Layout, alloc_zeroed, handle_alloc_error};
#[cfg(not(vmbell_stub_elf))]
use alloc::boxed::Box;
#[cfg(loom)]
use core::array::from_fn;
use core::fmt;

use super::{AddressBucket, ListChunk, MatchBucket};

/// Flag of a code: the signals are a list.
pub const GROUP: u32 = 1 << 31;
/// Flag of a cell: a doorbell has a datamatch.
pub const MATCH: u32 = 1 << 30;
/// The other bits of a code: a signal plus 1, or the index of a list's first chunk. 0 means no signal.
pub const CODE: u32 = MATCH - 1;
/// The largest signal number that a code can hold.
pub const MAX_SIGNAL: u32 = CODE - 1;

// Miri checks every atomic of a table at each reference to it, so its table is small.
#[cfg(not(loom))]
pub(super) const BITS: u32 = if cfg!(miri) { 1 } else { 14 };
// The model checker tracks every atomic; a table that it can build has few.
#[cfg(loom)]
pub(super) const BITS: u32 = 1;

/// Buckets of each hash table, overflow buckets not counted.
pub const BUCKETS: usize = 1 << BITS;
/// Overflow buckets of each hash table, of which the first is never used.
///
/// There are as many as entries: an overflow bucket in use holds at least one entry, so no pattern of
/// insertions and removals uses up the buckets before the entries.
pub const OVERFLOWS: usize = if cfg!(loom) { 4 } else { MAX_ADDRESSES };
/// Chunks of signal lists, of which the first is never used.
pub const CHUNKS: usize = if cfg!(loom) { 4 } else { 2 * MAX_ADDRESSES };

/// Cells of an address: for widths 1, 2, 4 and 8, and one for all others.
pub const CELLS: usize = 5;

/// The most addresses that can have a doorbell.
pub const MAX_ADDRESSES: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 4,
    (_, true) => 16,
    _ => 16_384,
};
/// The most distinct datamatch values, counted at each address and width and added up.
pub const MAX_MATCHES: usize = MAX_ADDRESSES;
/// The most signals of one list.
pub const MAX_ITEMS: usize = MAX_CHAIN * ListChunk::CODES;
/// The most chunks of one list.
pub(super) const MAX_CHAIN: usize = 128;

// The size that the comments and the documentation give.
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
    /// A number in the first argument of a hypercall; always a write of 8 bytes.
    Hypercall,
}

/// The table, as it lies in memory.
///
/// A bucket's code or cell is stored after its key and read before it: a reader that sees a new code sees the
/// key that it belongs to. Buckets and chunks that a change unlinks are reused only after a grace period.
#[repr(C, align(4096))]
pub struct Table {
    /// First hash table, by address, for I/O ports.
    pub pio: [AddressBucket; BUCKETS],
    /// First hash table for guest-physical addresses.
    pub mmio: [AddressBucket; BUCKETS],
    /// First hash table for hypercall numbers.
    pub hypercall: [AddressBucket; BUCKETS],
    /// Second hash table, by offset of the cell and value.
    pub matches: [MatchBucket; BUCKETS],
    /// Overflow buckets of the first hash table.
    pub address_overflows: [AddressBucket; OVERFLOWS],
    /// Overflow buckets of the second hash table.
    pub match_overflows: [MatchBucket; OVERFLOWS],
    /// The signal lists of codes with [`GROUP`].
    pub chunks: [ListChunk; CHUNKS],
}

impl Table {
    /// An empty table on the heap, for vCPU threads of this process. The kernel backs only the pages that are used.
    #[cfg(not(any(loom, vmbell_stub_elf)))]
    #[allow(unsafe_code)]
    pub fn boxed() -> Box<Self> {
        let layout = Layout::new::<Self>();
        // SAFETY: the layout is not empty.
        let table = unsafe { alloc_zeroed(layout) }.cast::<Self>();
        if table.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: `table` was allocated just above with the layout of a `Table`, for which zeroes are valid, and no one
        // else has the pointer: the box owns it until it is dropped.
        unsafe { Box::from_raw(table) }
    }

    /// An empty table of the model checker's atomics, which have to be constructed.
    #[cfg(loom)]
    pub fn boxed() -> Box<Self> {
        Box::new(Self {
            pio: from_fn(|_| AddressBucket::default()),
            mmio: from_fn(|_| AddressBucket::default()),
            hypercall: from_fn(|_| AddressBucket::default()),
            matches: from_fn(|_| MatchBucket::default()),
            address_overflows: from_fn(|_| AddressBucket::default()),
            match_overflows: from_fn(|_| MatchBucket::default()),
            chunks: from_fn(|_| ListChunk::default()),
        })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its fields are 8 MiB of words.
        f.write_str("Table")
    }
}
