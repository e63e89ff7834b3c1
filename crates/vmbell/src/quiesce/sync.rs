//! Threads and atomics, under the same names in ordinary builds and in the model checker.

pub(super) use crate::sync::Mutex;

#[cfg(not(loom))]
pub(super) use std::{
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    },
    thread,
};

#[cfg(loom)]
pub(super) use loom::{
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    },
    thread,
};
