//! The writers' side: epochs, the list of readers, and the objects that wait to be freed. Any thread may call it.

use std::{any::Any, fmt};

use super::{
    reader::{IDLE, Reader, Slot},
    sync::{Arc, AtomicU64, Mutex, Ordering, fence, lock, thread},
};

const FIRST_EPOCH: u64 = IDLE + 1;

/// How often a waiting writer checks the readers before it yields its time slice, and before it sleeps.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(not(loom))]
const YIELDS: u32 = 64;
#[cfg(not(loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

type Garbage = Box<dyn Any + Send>;

/// A set of readers that writers wait for together.
#[derive(Clone)]
pub struct Domain {
    shared: Arc<Shared>,
}

/// The epoch. It has a cache line of its own, because readers load it at each section.
#[repr(align(128))]
struct Epoch(AtomicU64);

struct Shared {
    epoch: Epoch,
    slots: Mutex<Vec<Arc<Slot>>>,
    retired: Mutex<Vec<(u64, Garbage)>>,
}

impl Domain {
    /// A domain without readers.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                epoch: Epoch(AtomicU64::new(FIRST_EPOCH)),
                slots: Mutex::new(Vec::new()),
                retired: Mutex::new(Vec::new()),
            }),
        }
    }

    /// A new reader for one thread. It starts idle.
    pub fn reader(&self) -> Reader {
        let slot = Arc::new(Slot::new());
        lock(&self.shared.slots).push(Arc::clone(&slot));
        Reader::new(self.clone(), slot)
    }

    /// Waits for a grace period: until no reader holds an object that was unlinked before the call.
    ///
    /// On a thread that is inside a section of its own it never returns. It also waits for a reader that
    /// stays busy without entering sections: see [`Reader::idle`].
    pub fn synchronize(&self) {
        let epoch = self.advance();
        let mut tries = 0;
        while self.oldest() < epoch {
            pause(&mut tries);
        }
        self.reclaim();
    }

    /// Keeps `garbage`, which was unlinked before the call, until a [`reclaim`](Self::reclaim) finds that no
    /// reader can hold it.
    ///
    /// It neither waits nor drops anything, so it may be called from inside a section and under locks.
    pub fn retire(&self, garbage: impl Any + Send) {
        let epoch = self.advance();
        lock(&self.shared.retired).push((epoch, Box::new(garbage)));
    }

    /// Drops the retired objects that no reader can hold any more; returns how many still wait.
    pub fn reclaim(&self) -> usize {
        let oldest = self.oldest();
        let (free, left) = {
            let mut retired = lock(&self.shared.retired);
            let free: Vec<_> = retired
                .extract_if(.., |(epoch, _)| *epoch <= oldest)
                .collect();
            (free, retired.len())
        };
        // Outside the lock, because a dropped object may retire others.
        drop(free);
        left
    }

    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.0.load(Ordering::Acquire)
    }

    pub(super) fn leave(&self, slot: &Arc<Slot>) {
        lock(&self.shared.slots).retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Starts a new epoch. A reader that notes it holds nothing that was unlinked before.
    fn advance(&self) -> u64 {
        self.shared.epoch.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The oldest epoch that a busy reader has noted, or the current one: objects retired up to it can be freed.
    fn oldest(&self) -> u64 {
        // Loaded before the readers are checked: objects unlinked from here on are of a later epoch.
        let now = self.epoch();
        let slots = lock(&self.shared.slots);
        // Pairs with the fence of a reader that gets busy: either the reader is seen here as busy, or it sees
        // that all objects up to `now` are unlinked.
        fence(Ordering::SeqCst);
        let noted = slots.iter().map(|slot| slot.noted());
        noted.filter(|&epoch| epoch != IDLE).fold(now, u64::min)
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
fn pause(tries: &mut u32) {
    *tries += 1;
    match *tries {
        0..SPINS => std::hint::spin_loop(),
        n if n < SPINS + YIELDS => thread::yield_now(),
        _ => thread::sleep(SLEEP),
    }
}

#[cfg(loom)]
fn pause(_: &mut u32) {
    thread::yield_now();
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "domain_test.rs"]
mod tests;
