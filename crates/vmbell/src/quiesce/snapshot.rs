//! A value that is replaced as a whole under its readers.

#![allow(unsafe_code)]

use std::{fmt, ops::Deref};

use super::{
    Domain, Reader, Section,
    sync::{Arc, AtomicPtr, Ordering},
};

/// The writers' handle of a value that readers see as it was at the start of their section.
pub struct Snapshot<T: Send + Sync + 'static> {
    shared: Arc<Shared<T>>,
    domain: Domain,
}

/// The current value: a pointer from `Box::into_raw`, owned by this struct, never null.
struct Shared<T> {
    current: AtomicPtr<T>,
}

/// A value that was current, and owned from then on by this struct: a pointer from `Box::into_raw`, not a
/// `Box`, which would claim as its own what readers still look at.
struct Replaced<T>(*mut T);

// SAFETY: the pointer is this struct's as a `Box` would be, which may be sent where its value may. Readers
// on other threads share the value until it is dropped, so `Snapshot` asks for `T: Sync` as well.
unsafe impl<T: Send + Sync> Send for Replaced<T> {}

impl<T> Drop for Replaced<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw`, and the swap that replaced it made this struct its
        // only owner. `Domain` drops what was retired when no reader can hold it any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Starts with a value.
    pub fn new(value: T) -> Self {
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self {
            shared: Arc::new(Shared { current }),
            domain: Domain::new(),
        }
    }

    /// Puts a value in place of the current one, which a later [`Domain::reclaim`] drops.
    ///
    /// Waits for nobody and drops nothing. Writers who derive the new value from the old take turns by a lock of
    /// their own.
    pub fn replace(&self, value: T) {
        let new = Box::into_raw(Box::new(value));
        let old = self.shared.current.swap(new, Ordering::AcqRel);
        self.domain.retire(Replaced(old));
    }

    /// Who waits for this value's readers.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// A handle for one thread that reads, idle at first.
    pub fn reader(&self) -> SnapshotReader<T> {
        SnapshotReader {
            shared: Arc::clone(&self.shared),
            reader: self.domain.reader(),
        }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: `current` came from `Box::into_raw`. Snapshot and readers share this struct by
        // `Arc`, so nobody is left who could use the value.
        drop(unsafe { Box::from_raw(current) });
    }
}

/// One thread's view of a [`Snapshot`].
pub struct SnapshotReader<T: Send + Sync + 'static> {
    shared: Arc<Shared<T>>,
    reader: Reader,
}

impl<T: Send + Sync + 'static> SnapshotReader<T> {
    /// The current value, kept for as long as the guard lives.
    #[inline]
    pub fn read(&mut self) -> SnapshotGuard<'_, T> {
        let section = self.reader.enter();
        let current = self.shared.current.load(Ordering::Acquire);
        // SAFETY: `current` came from `Box::into_raw` in this snapshot, whose domain the reader
        // belongs to. It was current inside the section, so whoever replaces it keeps it until
        // the section is over, and the guard owns the section.
        let value = unsafe { &*current };
        SnapshotGuard {
            value,
            _section: section,
        }
    }

    /// Gets busy: see [`Reader`].
    pub fn busy(&mut self) {
        self.reader.busy();
    }

    /// Gets idle: see [`Reader`].
    pub fn idle(&mut self) {
        self.reader.idle();
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for SnapshotReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotReader")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

/// A value, and the section that keeps it.
#[derive(Debug)]
pub struct SnapshotGuard<'r, T> {
    value: &'r T,
    _section: Section<'r>,
}

impl<T> Deref for SnapshotGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "snapshot_test.rs"]
mod tests;
