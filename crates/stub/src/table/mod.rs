//! Whom a guest write signals: the lookup, and the memory that it reads.
//!
//! Two hashes of 64-byte buckets. The first finds the address and, in one cell for each width,
//! the signals of that width's wildcards and whether any item there asks for a value; only if one
//! does, the second finds the value. So a wildcard costs one probe and a value two, however many
//! items there are. The semantics are those of Linux `virt/kvm/eventfd.c`, plus groups.
//!
//! vCPU threads read it, in the sandbox (which maps it read-only) or in the monitor; one writer,
//! `vmbell::doorbell`, changes it under them. All-zero bytes are an empty table. The lookup neither
//! allocates nor panics nor calls out, whatever the memory holds.

mod bucket;
mod layout;
mod lookup;
mod signals;

pub use bucket::{AddressBucket, Guess, ListChunk, MatchBucket};
pub use layout::{
    BUCKETS, CELLS, CHUNKS, CODE, GROUP, Kind, MATCH, MAX_ADDRESSES, MAX_ITEMS, MAX_MATCHES,
    MAX_SIGNAL, OVERFLOWS, Table,
};
pub use lookup::cell_index;
pub use signals::{Signals, SignalsIter};

pub use crate::sync::{AtomicU32, AtomicU64, Ordering};
