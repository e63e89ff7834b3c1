//! Threads and atomics, by one name for ordinary builds and for the model checker.

#[cfg(not(loom))]
pub(super) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    },
    thread,
};

#[cfg(loom)]
pub(super) use loom::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    },
    thread,
};

/// Locks a mutex even if a thread panicked while it held the lock: the value is valid, since every change under
/// the locks of this module is complete at each step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
