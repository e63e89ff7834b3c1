//! The doorbell table: maps a guest's write to its signals, in memory that lookups read while one writer changes it.
//!
//! ```text
//!    a write of 4 bytes, `value`, to `addr`          two hash tables of 64-byte buckets, with two slots each
//!                  │ hash of addr
//!                  ▼  pio, mmio or hypercall
//!    ┌ AddressBucket ────────────────┐  link   ┌ address_overflows ┐  link
//!    │ addr          │ other addr    │────────▶│ same layout       │────────▶ 0: no more
//!    │ cell, 1 byte  │               │         └───────────────────┘
//!    │ cell, 2 bytes │               │
//!    │ cell, 4 bytes ┼─┐             │   cell: MATCH flag, and the code of the wildcards; 0 if there is none
//!    │ cell, 8 bytes │ │             │
//!    │ cell, other   │ │             │
//!    └───────────────┴─┼─────────────┘
//!                      │ only with MATCH: hash of addr and value
//!                      ▼  matches
//!    ┌ MatchBucket ──────────────────┐  link
//!    │ value         │ other value   │────────▶ match_overflows, alike
//!    │ cell's offset │               │   cell's offset: 0 if the slot is unused
//!    │ code ─┐       │               │   code: signal + 1, or GROUP flag and a chunk's index
//!    └───────┼───────┴───────────────┘
//!            ▼  with GROUP: chunks
//!    ┌ ListChunk ────────────────────┐  link
//!    │ 15 words: signal + 1, or 0    │────────▶ the next chunk of the list
//!    └───────────────────────────────┘
//! ```
//!
//! - **Signal**: the number of a doorbell's eventfd in the process that looks the write up. With `PAYLOAD`, the index of a
//!   payload: the process stores the value there, and then signals the payload's eventfd.
//! - **Word**: an atomic integer of the table, the unit in which readers see a change.
//! - **Code**: the signals of a write: none, one, or a list. A value's code includes the wildcards' signals.
//! - **Cell**: the word for one address and width. With `MATCH`, a doorbell there has a datamatch.
//! - **Chunk**: a piece of a list, one cache line.
//! - **Link**: the index of the overflow bucket or chunk that follows; 0 is the end.
//!
//! So a wildcard takes one probe and a datamatch takes two, for any number of doorbells. All-zero bytes are an empty
//! table. vCPU threads read the table, in the sandbox (which maps it read-only) or in the VMM; `vmbell::doorbell`
//! writes it. Whatever the memory contains, the lookup does not allocate, panic or make system calls.
//!
//! ```
//! use vmbell_core::table::{Kind, Table};
//!
//! let table = Table::boxed();
//! assert!(table.lookup(Kind::Pio, 0x510, 4, 1).is_empty(), "no doorbell: the write goes to the VMM");
//! ```

mod layout;
mod lookup;

pub use layout::{
    AddressBucket, BUCKETS, CELLS, CHUNKS, CODE, GROUP, Kind, ListChunk, MATCH, MAX_ADDRESSES,
    MAX_ITEMS, MAX_MATCHES, MAX_SIGNAL, MatchBucket, OVERFLOWS, PAYLOAD, Probe, Table,
};
pub use lookup::{Signals, SignalsIter, cell_index};
