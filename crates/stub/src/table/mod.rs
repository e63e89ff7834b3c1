//! The doorbell table: the lookup of the signals of a guest write, and the memory that it reads.
//!
//! It has two hash tables of 64-byte buckets. The first finds the address and, in one cell for each width,
//! the signals of that width's wildcards and whether any doorbell there has a datamatch; only if one
//! has, the second finds the value. So a wildcard costs one probe and a datamatch two, however many
//! doorbells there are. The semantics are those of Linux `virt/kvm/eventfd.c`, plus groups.
//!
//! vCPU threads read the table, in the sandbox (which maps it read-only) or in the monitor; one writer,
//! `vmbell::doorbell`, changes it meanwhile. All-zero bytes are an empty table. The lookup neither
//! allocates nor panics nor makes system calls, whatever the memory holds.

mod bucket;
mod layout;
mod lookup;
mod signals;

pub use bucket::{AddressBucket, ListChunk, MatchBucket, Probe};
pub use layout::{
    BUCKETS, CELLS, CHUNKS, CODE, GROUP, Kind, MATCH, MAX_ADDRESSES, MAX_ITEMS, MAX_MATCHES,
    MAX_SIGNAL, OVERFLOWS, Table,
};
pub use lookup::cell_index;
pub use signals::{Signals, SignalsIter};

pub use crate::sync::{AtomicU32, AtomicU64, Ordering};
