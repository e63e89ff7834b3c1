//! The cache of saved states: machines of the lab that were stopped after their boot.
//!
//! The root is `$XDG_CACHE_HOME/vmbell/states` (or `~/.cache/vmbell/states`). A state is a folder with two files, the
//! machine's memory (`ram`, sparse) and QEMU's state of its devices (`state`), and a manifest. Its name is the SHA-256
//! of its [`StateKey`]: of all that the machine was made from. It is built in a folder next to the finished ones and renamed
//! into place as the last step, and each use checks both files in full: a state that is damaged is removed, never used.
//!
//! Two locks keep processes apart. `KEY.lock` is held by the one process that makes that state. The manifest is
//! locked, shared, by each process that uses the state, so that a state in use is not removed to save space.

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
