//! Atomics under the same names in ordinary builds and in the model checker.
//!
//! With `--cfg loom` they are loom's, which the models of `vmbell::doorbell` and of this crate explore.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
