//! Locks that a panic does not poison. What they guard is consistent between any two statements, so another thread can
//! continue with it. Code that must stop after a panic (a queue, a VM) has its own guard for that.
//!
//! With `--cfg loom`, the locks and [`atomic`] are loom's, so that a model runs the code that devices run. Under
//! `cargo vmbell-check`, the checker's search sees a `Mutex` and an `AtomicU64`; a `RwLock` is the standard library's,
//! and a wait for a `Condvar` may end at any time. No time passes under loom or the checker, so `wait_timeout_while`
//! has no limit.

use std::fmt;
use std::sync::PoisonError;
use std::sync::TryLockError::{Poisoned, WouldBlock};
use std::time::{Duration, Instant};

#[cfg(vmbell_check)]
use checked as base;
#[cfg(loom)]
use loom::sync as base;
#[cfg(not(any(loom, vmbell_check)))]
use std::sync as base;

#[cfg(vmbell_check)]
mod checked;

pub use base::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(vmbell_check)]
pub use checked::{Place, place_words};

/// [`std::sync::Mutex`] without poison.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(base::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock that is free.
    #[cfg(not(any(loom, vmbell_check)))]
    pub const fn new(value: T) -> Self {
        Self(base::Mutex::new(value))
    }

    /// A lock that is free.
    #[cfg(any(loom, vmbell_check))]
    pub fn new(value: T) -> Self {
        Self(base::Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if no thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(WouldBlock) => None,
        }
    }

    /// The value, which no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::RwLock`] without poison.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(base::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock that is free.
    #[cfg(not(any(loom, vmbell_check)))]
    pub const fn new(value: T) -> Self {
        Self(base::RwLock::new(value))
    }

    /// A lock that is free.
    #[cfg(any(loom, vmbell_check))]
    pub fn new(value: T) -> Self {
        Self(base::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes, and takes the lock for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock for reading if no thread writes or waits to write.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(guard) => Some(guard),
            Err(Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(WouldBlock) => None,
        }
    }

    /// Waits until no other thread has the lock, and takes it for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::Condvar`] without poison.
#[derive(Debug, Default)]
pub struct Condvar(base::Condvar);

impl Condvar {
    /// A condition without waiting threads.
    #[cfg(not(any(loom, vmbell_check)))]
    pub const fn new() -> Self {
        Self(base::Condvar::new())
    }

    /// A condition without waiting threads.
    #[cfg(any(loom, vmbell_check))]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Releases the lock, waits for a notification, and takes the lock again. May return without a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`wait`](Self::wait), repeatedly until the condition is false.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Like [`wait`](Self::wait), for at most this time.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Like [`wait_while`](Self::wait_while), for at most this time: the condition may still be true.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        if cfg!(any(loom, vmbell_check)) {
            return self.wait_while(guard, condition);
        }
        let begun = Instant::now();
        while condition(&mut guard) {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            guard = self.wait_timeout(guard, left);
        }
        guard
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "sync_test.rs"]
mod tests;
