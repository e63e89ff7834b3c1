//! Quiescent-state-based reclamation: readers take no lock, and writers free an object after a grace period.
//!
//! Each thread that reads has a [`Reader`] with a cache line of its own, in which it notes the last
//! epoch at whose start it held nothing. A writer unlinks an object and starts a new epoch; nobody uses the
//! object any more once every reader is idle or has noted that epoch. The writer waits for that
//! ([`Domain::synchronize`]) or leaves the freeing for later ([`Domain::retire`]). Readers write to no
//! shared cache line, and a busy reader needs no fence either.
//!
//! [`Snapshot`] uses it for a value that is replaced as a whole.
//!
//! ```
//! use vmbell::quiesce::Snapshot;
//!
//! let routes = Snapshot::new(vec![1, 2]);
//! let mut reader = routes.reader(); // One for each thread that reads.
//! let old = reader.read();
//! routes.replace(vec![3]);
//! assert_eq!(*old, [1, 2], "kept for the reader that still uses it");
//! assert_eq!(routes.domain().reclaim(), 1, "one value waits to be freed");
//! drop(old);
//! assert_eq!(*reader.read(), [3]);
//! assert_eq!(routes.domain().reclaim(), 0);
//! ```

mod domain;
mod reader;
mod snapshot;
mod sync;

pub use domain::Domain;
pub use reader::{Reader, Section};
pub use snapshot::{Snapshot, SnapshotGuard, SnapshotReader};

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
pub(crate) mod models;
