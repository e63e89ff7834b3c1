//! The writers' side: epochs, the list of readers, and the objects that wait to be freed. Any thread may call it.

#[cfg(not(loom))]
use std::time::Instant;
use std::{any::Any, fmt, time::Duration};

use super::{
    barrier::Barrier,
    sync::{Arc, AtomicU64, Mutex, Ordering, thread},
};

/// The value in the slot of a reader that is outside any section.
pub(super) const IDLE: u64 = 0;

/// The epoch at which a reader's section began, which the writers read. It has its own cache line, and also the
/// adjacent line, which is prefetched with it.
#[repr(align(128))]
pub(super) struct Slot {
    pub(super) noted: AtomicU64,
}

impl Slot {
    fn new() -> Self {
        let noted = AtomicU64::new(IDLE);
        Self { noted }
    }

    /// The epoch that the reader has noted.
    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }
}

const FIRST_EPOCH: u64 = IDLE + 1;

/// How many times a waiting writer checks the readers before it yields its time slice, and then before it sleeps.
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

/// The epoch. It has its own cache line, because readers load it at each section.
#[repr(align(128))]
struct Epoch(AtomicU64);

struct Shared {
    epoch: Epoch,
    barrier: Barrier,
    slots: Mutex<Vec<Arc<Slot>>>,
    retired: Mutex<Vec<(u64, Garbage)>>,
}

impl Domain {
    /// A domain without readers.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                epoch: Epoch(AtomicU64::new(FIRST_EPOCH)),
                barrier: Barrier::of_process(),
                slots: Mutex::new(Vec::new()),
                retired: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Waits for a grace period: until no reader holds an object that was unlinked before the call.
    ///
    /// It never returns if the calling thread is inside a section.
    pub fn synchronize(&self) {
        while !self.synchronize_within(Duration::MAX) {}
    }

    /// Waits for at most this time. Returns whether the grace period has ended; if it has not, retired objects stay.
    #[must_use]
    pub fn synchronize_within(&self, limit: Duration) -> bool {
        let epoch = self.advance();
        let mut tries = Tries::new(limit);
        // One barrier is enough: a section that begins after it cannot find what was unlinked before the call.
        let mut imposed = false;
        while {
            imposed = imposed || self.shared.barrier.impose();
            !imposed || self.oldest_noted(epoch) < epoch
        } {
            if !tries.go_on() {
                return false;
            }
        }
        // A section that has begun meanwhile may have noted an older epoch, but holds no object of that epoch.
        self.free(epoch);
        true
    }

    /// Keeps `garbage`, which was unlinked before the call, until a [`reclaim`](Self::reclaim) finds that no
    /// reader can hold it.
    ///
    /// It neither waits nor drops anything, so it may be called from inside a section and under locks.
    pub fn retire(&self, garbage: impl Any + Send) {
        let epoch = self.advance();
        self.shared.retired.lock().push((epoch, Box::new(garbage)));
    }

    /// Drops the retired objects that no reader can hold any more; returns how many are left.
    pub fn reclaim(&self) -> usize {
        if self.shared.retired.lock().is_empty() {
            return 0;
        }
        self.free(self.oldest())
    }

    /// Drops the objects that were retired up to this epoch: no reader holds them any more.
    fn free(&self, oldest: u64) -> usize {
        let (free, left) = {
            let mut retired = self.shared.retired.lock();
            let free: Vec<_> = retired
                .extract_if(.., |(epoch, _)| *epoch <= oldest)
                .collect();
            (free, retired.len())
        };
        // Outside the lock, because a dropped object may retire others.
        drop(free);
        left
    }

    /// Whether readers need a fence for each section, because this kernel has no `membarrier` for this process.
    pub fn readers_have_fences(&self) -> bool {
        self.shared.barrier == Barrier::BothSides
    }

    pub(super) fn barrier(&self) -> Barrier {
        self.shared.barrier
    }

    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.0.load(Ordering::Acquire)
    }

    pub(super) fn join(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::new());
        self.shared.slots.lock().push(Arc::clone(&slot));
        slot
    }

    pub(super) fn leave(&self, slot: &Arc<Slot>) {
        self.shared
            .slots
            .lock()
            .retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Starts a new epoch. A reader that notes the new epoch holds nothing that was unlinked before it.
    fn advance(&self) -> u64 {
        self.shared.epoch.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The oldest epoch at which a section that is still open began, or the current epoch if no section is open.
    /// Objects retired up to that epoch can be freed.
    fn oldest(&self) -> u64 {
        // Loaded before the readers are checked: objects that are unlinked from here on belong to a later epoch.
        let now = self.epoch();
        // Pairs with the barrier of a reader that begins a section: either the section is seen here, or the reader sees
        // that all objects up to `now` are unlinked.
        if self.shared.barrier.impose() {
            self.oldest_noted(now)
        } else {
            IDLE
        }
    }

    fn oldest_noted(&self, now: u64) -> u64 {
        let slots = self.shared.slots.lock();
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

/// How many times a writer has found that it has to wait.
#[cfg(not(loom))]
struct Tries {
    count: u32,
    end: Option<Instant>,
}

#[cfg(not(loom))]
impl Tries {
    fn new(limit: Duration) -> Self {
        Self {
            count: 0,
            end: Instant::now().checked_add(limit),
        }
    }

    /// Waits for a moment; returns false if no time is left.
    fn go_on(&mut self) -> bool {
        self.count = self.count.saturating_add(1);
        match self.count {
            0..SPINS => std::hint::spin_loop(),
            n if n < SPINS + YIELDS => thread::yield_now(),
            _ => thread::sleep(SLEEP),
        }
        self.end.is_none_or(|end| Instant::now() < end)
    }
}

/// A model has no time.
#[cfg(loom)]
struct Tries;

#[cfg(loom)]
impl Tries {
    fn new(_: Duration) -> Self {
        Self
    }

    fn go_on(&mut self) -> bool {
        thread::yield_now();
        true
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "domain_test.rs"]
mod tests;
