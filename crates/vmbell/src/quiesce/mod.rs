//! Readers that take no lock, and writers that free behind them: quiescent-state reclamation.
//!
//! Each thread that reads has a [`Reader`] with a cache line of its own, where it notes the last
//! epoch in which it held nothing. A writer cuts something off, starts a new epoch, and knows that
//! nobody uses it once every reader is idle or has noted that epoch: it waits for that
//! ([`Domain::synchronize`]) or leaves the freeing for later ([`Domain::retire`]). Readers write no
//! shared line, and in the busy state need no fence either.
//!
//! [`Snapshot`] is the usual thing to put behind it: a value that is replaced as a whole.

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
