//! Atomics under one name for ordinary builds and for the model checker.
//!
//! `--cfg loom` swaps in loom's, which the models of `vmbell::doorbell` and of this crate explore.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
