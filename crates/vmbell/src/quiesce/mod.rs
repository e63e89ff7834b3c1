//! Epoch-based reclamation: readers take no lock and need no fence, and writers free an object after a grace period.
//!
//! Each thread that reads has a [`Reader`] with its own cache line. There it notes the epoch at which a section begins,
//! and clears the note at the section's end. So a thread is quiescent outside sections: in the guest, asleep in `hlt`,
//! or in a wait. A writer unlinks an object and starts a new epoch; once every section of an earlier epoch has ended,
//! no thread uses the object any more. The writer waits for that ([`Domain::synchronize`]), or leaves the object to be
//! freed later ([`Domain::retire`]). Readers write to no shared cache line; the writers order the readers' accesses
//! (`membarrier(2)`).
//!
//! [`Snapshot`] uses this for a value that is replaced as a whole.
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

mod barrier;
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
