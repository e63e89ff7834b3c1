//! The cache of saved states: lab machines that were stopped after their boot.
//!
//! The root is `$XDG_CACHE_HOME/vmbell/states` (or `~/.cache/vmbell/states`). A state is a folder with the machine's
//! memory (`ram`, sparse), QEMU's state of its devices (`state`), and a manifest. Its name is the SHA-256 of its
//! [`StateKey`], everything that the machine was made from. It is built in a folder next to the finished ones and
//! renamed into place as the last step. Each use checks both files completely: a damaged state is removed, never used.
//!
//! There are two locks. The process that makes a state holds `KEY.lock`. Each process that uses the state holds a
//! shared lock on the manifest, so that a state in use is not removed to save space.

mod digests;
mod key;
mod lock;
mod seal;
mod state;
mod store;

pub use key::{KeyPart, StateKey};
pub use seal::Seal;
pub use state::{Saved, StateManifest};
pub use store::{ListedState, Removed, StateDraft, Store};

#[cfg(test)]
#[path = "store_test.rs"]
mod tests;

#[cfg(test)]
#[path = "processes_test.rs"]
mod processes;
