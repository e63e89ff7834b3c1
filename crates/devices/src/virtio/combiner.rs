//! Decides which thread works on the ring of a queue: any thread may serve it, and any may complete a request later.
//!
//! No thread waits for a thread that serves, because a driver could make the wait long. It leaves its work instead: a
//! call to serve is counted, and a completion is put on a list. The thread that has the ring checks both after it has
//! released the ring. A thread that wants to serve does wait for one that only gives back completions, because that
//! wait is short. A stop waits for both.
//!
//! The models of `combiner_test.rs` run this file under loom.

use vmbell::sync::Mutex;
use vmbell::sync::atomic::{AtomicU64, Ordering};

/// A ring `R`, if it is started, and the completions `C` that wait for it.
pub(super) struct Combiner<R, C> {
    started: Mutex<Started<R>>,
    /// What was completed while another thread had the ring.
    late: Mutex<Vec<C>>,
    /// How many calls of [`serve`](Self::serve) there were since the call that is serving now began.
    calls: AtomicU64,
    /// [`LEAVE`] and [`DEFERS`].
    flags: AtomicU64,
}

struct Started<R> {
    ring: Option<R>,
    /// The ring during a pause, when no thread may have it.
    paused: Option<R>,
    is_paused: bool,
    /// How many times a ring has been started.
    starts: u64,
}

/// Asks the thread that serves to return soon, because the ring is being stopped.
const LEAVE: u64 = 1 << 0;
/// Whether a request was ever deferred. Set by a thread that has the ring, so that every thread that has the ring later
/// sees it.
const DEFERS: u64 = 1 << 1;

impl<R, C> Combiner<R, C> {
    pub(super) fn new() -> Self {
        Self {
            started: Mutex::new(Started {
                ring: None,
                paused: None,
                is_paused: false,
                starts: 0,
            }),
            late: Mutex::new(Vec::new()),
            calls: AtomicU64::new(0),
            flags: AtomicU64::new(0),
        }
    }

    /// Starts the ring that `ring` creates from the number of this start. During a pause, the ring is paused.
    pub(super) fn start(&self, ring: impl FnOnce(u64) -> R) {
        let mut started = self.started.lock();
        started.starts += 1;
        let ring = Some(ring(started.starts));
        if started.is_paused {
            started.paused = ring;
        } else {
            started.ring = ring;
        }
    }

    /// Stops the ring: after the return, no thread has it. Completions that wait for the ring are dropped.
    pub(super) fn stop(&self) {
        self.flags.fetch_or(LEAVE, Ordering::Relaxed);
        let mut started = self.started.lock();
        (started.ring, started.paused) = (None, None);
        drop(started);
        self.flags.fetch_and(!LEAVE, Ordering::Relaxed);
        // Dropped without a lock, because a completion may own anything.
        drop(self.take_late());
    }

    /// Pauses the ring that is or will be started, unless `look` fails: until [`resume`](Self::resume), no thread has it,
    /// and calls to serve have no effect. Returns what `look` returns for the ring, if it is started.
    pub(super) fn pause<T, E>(
        &self,
        look: impl FnOnce(&mut R) -> Result<T, E>,
        give_back: impl FnMut(&mut Option<R>, Vec<C>),
    ) -> Result<Option<T>, E> {
        self.flags.fetch_or(LEAVE, Ordering::Relaxed);
        let mut started = self.started.lock();
        self.flags.fetch_and(!LEAVE, Ordering::Relaxed);
        let Started { ring, paused, .. } = &mut *started;
        let looked = ring.as_mut().or(paused.as_mut()).map(look).transpose();
        if looked.is_ok() {
            started.is_paused = true;
            if let Some(ring) = started.ring.take() {
                started.paused = Some(ring);
            }
        }
        drop(started);
        // A completion may have found the ring taken.
        self.flush(give_back);
        looked
    }

    /// Ends a pause. The caller serves the ring afterwards.
    pub(super) fn resume(&self) {
        let mut started = self.started.lock();
        started.is_paused = false;
        if let Some(ring) = started.paused.take() {
            started.ring = Some(ring);
        }
    }

    /// Calls `work` with the ring, if there is one that is paused.
    pub(super) fn with_paused<T>(&self, work: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.started.lock().paused.as_mut().map(work)
    }

    /// Calls `serve` with the ring, and `give_back` with what was completed meanwhile. Returns whether other calls came
    /// meanwhile, so that the caller must call again; or `None` if another thread is serving, and will call again.
    ///
    /// Neither function may panic.
    #[inline]
    pub(super) fn serve<T: Default>(
        &self,
        serve: impl FnOnce(&mut Option<R>) -> T,
        give_back: impl FnMut(&mut Option<R>, Vec<C>),
    ) -> Option<(T, bool)> {
        // The thread that serves sees everything that happened before the calls that it has counted.
        if self.calls.fetch_add(1, Ordering::AcqRel) > 0 {
            return None;
        }
        let mut served = T::default();
        if !self.leaves() {
            served = serve(&mut self.started.lock().ring);
        }
        if self.may_be_late() {
            self.flush(give_back);
        }
        let called = self.calls.swap(0, Ordering::AcqRel) > 1;
        Some((served, called))
    }

    /// Whether the thread that serves has to return soon.
    #[inline]
    pub(super) fn leaves(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LEAVE != 0
    }

    /// Called by the thread that has the ring, before it defers a request.
    pub(super) fn expect_late(&self) {
        if !self.may_be_late() {
            self.flags.fetch_or(DEFERS, Ordering::Relaxed);
        }
    }

    /// Completes a request: calls `give_back` with it, unless another thread has the ring and will do so.
    pub(super) fn complete(&self, completion: C, give_back: impl FnMut(&mut Option<R>, Vec<C>)) {
        self.late.lock().push(completion);
        self.flush(give_back);
    }

    /// Whether something may have been completed while the caller had the ring. The caller then
    /// [takes](Self::take_late) it.
    #[inline]
    pub(super) fn may_be_late(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & DEFERS != 0
    }

    /// Takes the completions that were added while the caller had the ring.
    pub(super) fn take_late(&self) -> Vec<C> {
        std::mem::take(&mut *self.late.lock())
    }

    /// Gives back what is on the list. Each thread calls this after it has released the ring, because another thread
    /// that added to the list may have found the ring taken.
    #[inline(never)]
    fn flush(&self, mut give_back: impl FnMut(&mut Option<R>, Vec<C>)) {
        while !self.late.lock().is_empty() {
            let Some(mut started) = self.started.try_lock() else {
                return;
            };
            let late = self.take_late();
            give_back(&mut started.ring, late);
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
#[path = "combiner_test.rs"]
mod models;
