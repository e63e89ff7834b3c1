//! Quiescent-state-based reclamation: readers take no lock, and writers free an object after a grace period.
//!
//! Each thread that reads has a [`Reader`] with a cache line of its own, in which it notes the last
//! epoch at whose start it held nothing. A writer unlinks an object and starts a new epoch; nobody uses the
//! object any more once every reader is idle or has noted that epoch. The writer waits for that
//! ([`Domain::synchronize`]) or leaves the freeing for later ([`Domain::retire`]). Readers write to no
//! shared cache line, and a busy reader needs no fence either.
//!
//! [`Snapshot`] uses it for a value that is replaced as a whole.

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
