//! A value that a writer replaces as a whole while readers use it.

#![allow(unsafe_code)]

use std::{fmt, ops::Deref};

use super::{
    Domain, Reader, Section,
    sync::{Arc, AtomicPtr, Ordering},
};

/// The writers' handle of the value. A reader sees the value that was current at the start of its section.
pub struct Snapshot<T: Send + Sync + 'static> {
    shared: Arc<Shared<T>>,
    domain: Domain,
}

/// The current value: a pointer from `Box::into_raw`, owned by this struct, never null.
struct Shared<T> {
    current: AtomicPtr<T>,
}

/// A value that was replaced, owned by this struct: a pointer from `Box::into_raw`. A `Box` would claim exclusive
/// access to a value that readers may still use.
struct Replaced<T>(*mut T);

// SAFETY: this struct owns the pointer as a `Box` would, and a `Box` may be sent where its value may. Readers on other
// threads share the value until it is dropped, so `Snapshot` asks for `T: Sync` as well.
unsafe impl<T: Send + Sync> Send for Replaced<T> {}

impl<T> Drop for Replaced<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw`, and the swap that replaced it made this struct its
        // only owner. `Domain` drops what was retired when no reader can hold it any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// A snapshot with a first value.
    pub fn new(value: T) -> Self {
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self {
            shared: Arc::new(Shared { current }),
            domain: Domain::new(),
        }
    }

    /// Replaces the current value. A later [`Domain::reclaim`] drops the old one.
    ///
    /// It neither waits nor drops anything. Writers that derive the new value from the old one need their
    /// own lock.
    pub fn replace(&self, value: T) {
        let new = Box::into_raw(Box::new(value));
        let old = self.shared.current.swap(new, Ordering::AcqRel);
        self.domain.retire(Replaced(old));
    }

    /// The domain of this value's readers.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// A new reader for one thread.
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
        // `Arc`, so no reader is left that could use the value.
        drop(unsafe { Box::from_raw(current) });
    }
}

/// One thread's reader of a [`Snapshot`].
pub struct SnapshotReader<T: Send + Sync + 'static> {
    shared: Arc<Shared<T>>,
    reader: Reader,
}

impl<T: Send + Sync + 'static> SnapshotReader<T> {
    /// The current value, which is not freed while the guard lives.
    #[inline]
    pub fn read(&mut self) -> SnapshotGuard<'_, T> {
        let section = self.reader.enter();
        let current = self.shared.current.load(Ordering::Acquire);
        // SAFETY: `current` came from `Box::into_raw` in this snapshot, whose domain the reader
        // belongs to. It was current inside the section, so a writer that replaces it keeps it until
        // the section is over, and the guard owns the section.
        let value = unsafe { &*current };
        SnapshotGuard {
            value,
            _section: section,
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for SnapshotReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotReader")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

/// A value, and the read-side section that keeps it from being freed.
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
