//! The writers' side: epochs, the list of readers, and what waits to be freed.

use std::{any::Any, fmt};

use super::{
    reader::{IDLE, Reader, Slot},
    sync::{Arc, AtomicU64, Mutex, Ordering, fence, lock, thread},
};

const FIRST_EPOCH: u64 = IDLE + 1;

/// How often a waiting writer looks before it gives its time slice away, and before it sleeps.
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

/// The epoch has a cache line to itself: readers look at it all the time.
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

    /// A handle for one thread that reads. It starts idle.
    pub fn reader(&self) -> Reader {
        let slot = Arc::new(Slot::new());
        lock(&self.shared.slots).push(Arc::clone(&slot));
        Reader::new(self.clone(), slot)
    }

    /// Waits until no reader holds anything that was cut off before the call.
    ///
    /// Never returns on a thread that is inside a section of its own. A reader that stays busy
    /// without entering sections is waited for: see [`Reader::idle`].
    pub fn synchronize(&self) {
        let epoch = self.advance();
        let mut tries = 0;
        while self.oldest() < epoch {
            pause(&mut tries);
        }
        self.reclaim();
    }

    /// Keeps `garbage`, which was cut off before the call, for a [`reclaim`](Self::reclaim) at
    /// which no reader can hold it.
    ///
    /// Waits for nobody and drops nothing, so it may be called from inside a section and under
    /// locks.
    pub fn retire(&self, garbage: impl Any + Send) {
        let epoch = self.advance();
        lock(&self.shared.retired).push((epoch, Box::new(garbage)));
    }

    /// Drops what no reader holds any more, and says how much waits on.
    pub fn reclaim(&self) -> usize {
        let oldest = self.oldest();
        let (free, left) = {
            let mut retired = lock(&self.shared.retired);
            let free: Vec<_> = retired
                .extract_if(.., |(epoch, _)| *epoch <= oldest)
                .collect();
            (free, retired.len())
        };
        // Outside the lock, because what is dropped may retire more.
        drop(free);
        left
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.0.load(Ordering::Acquire)
    }

    pub(super) fn leave(&self, slot: &Arc<Slot>) {
        lock(&self.shared.slots).retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Starts a new epoch: who notes it has seen everything that was cut off before.
    fn advance(&self) -> u64 {
        self.shared.epoch.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The newest epoch of which no reader holds anything older.
    fn oldest(&self) -> u64 {
        // Before the readers are looked at: what is cut off from here on is of a later epoch.
        let now = self.epoch();
        let slots = lock(&self.shared.slots);
        // Against the fence of a reader that gets busy: either it is seen here as busy, or it
        // sees that everything up to `now` is cut off.
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
