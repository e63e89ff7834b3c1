//! Atomics and fences: the standard library's, or loom's where loom explores every interleaving.

#[cfg(not(loom))]
pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(super) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
};
