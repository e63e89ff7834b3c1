//! Locks and atomics under `cargo vmbell-check`, which sets `cfg(vmbell_check)`: their words are where the scenario
//! [places](place_words) them, in the memory that the checker explores.
//!
//! The checker runs all tasks on one thread, so a lock spins and does not sleep. The data that a lock guards is not in
//! the explored memory. When the checker repeats an execution, the locks are taken in the same order, so the data has
//! the same values.

use std::fmt;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, OnceLock, TryLockError, TryLockResult};
use std::thread;
use std::time::Duration;

pub use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use atomic::{AtomicU64, Ordering};

/// Gives a new word its place, and stores its first value there; returns `None` for a word that is not explored.
pub type Place = fn(u64) -> Option<&'static std::sync::atomic::AtomicU64>;

static PLACE: OnceLock<Place> = OnceLock::new();

/// Asks `place` where to put each word from now on. Later calls have no effect.
pub fn place_words(place: Place) {
    let _ = PLACE.set(place);
}

/// Atomics whose words can be placed in memory by [`place_words`](super::place_words).
pub mod atomic {
    pub use std::sync::atomic::*;

    /// [`std::sync::atomic::AtomicU64`] with a place.
    #[derive(Debug)]
    pub enum AtomicU64 {
        /// The word is explored.
        Placed(&'static std::sync::atomic::AtomicU64),
        /// The word is not explored.
        Own(std::sync::atomic::AtomicU64),
    }

    impl AtomicU64 {
        /// A word with this value.
        pub fn new(value: u64) -> Self {
            let placed = crate::sync::checked::PLACE
                .get()
                .and_then(|place| place(value));
            placed.map_or_else(|| Self::Own(value.into()), Self::Placed)
        }
    }

    impl std::ops::Deref for AtomicU64 {
        type Target = std::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            match self {
                Self::Placed(word) => word,
                Self::Own(word) => word,
            }
        }
    }

    impl Default for AtomicU64 {
        fn default() -> Self {
            Self::new(0)
        }
    }
}

/// A lock that spins. Its word is 1 while it is held.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    word: AtomicU64,
    value: std::sync::Mutex<T>,
}

/// Holds the lock until it is dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// `None` while the guard is dropped, before the lock's word is 0 again.
    value: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU64::new(0),
            value: std::sync::Mutex::new(value),
        }
    }

    pub fn into_inner(self) -> LockResult<T> {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            if let Ok(guard) = self.try_lock() {
                return Ok(guard);
            }
            while self.word.load(Ordering::Relaxed) != 0 {
                hint::spin_loop();
            }
        }
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let taken = self
            .word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return Err(TryLockError::WouldBlock);
        }
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("two threads have one lock"),
        };
        Ok(MutexGuard {
            mutex: self,
            value: Some(value),
        })
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.value.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is held until it is dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is held until it is dropped")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.mutex.word.store(0, Ordering::Release);
    }
}

/// A condition whose waits end at any time.
#[derive(Debug, Default)]
pub struct Condvar;

impl Condvar {
    pub fn notify_one(&self) {}

    pub fn notify_all(&self) {}

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex;
        drop(guard);
        thread::yield_now();
        mutex.lock()
    }

    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let guard = self.wait(guard);
        guard
            .map(|guard| (guard, false))
            .map_err(|_| unreachable!("a lock has no poison"))
    }
}
