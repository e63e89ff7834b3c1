//! The readers' side: one [`Reader`] for each thread.

use std::{fmt, marker::PhantomData};

use super::{
    Domain,
    sync::{Arc, AtomicU64, Ordering, fence},
};

/// The value that an idle reader has in its slot.
pub(super) const IDLE: u64 = 0;

/// The epoch that a reader has noted, for the writers, on a cache line (and the adjacent one, which is
/// prefetched with it) of its own.
#[repr(align(128))]
pub(super) struct Slot {
    noted: AtomicU64,
}

impl Slot {
    pub(super) fn new() -> Self {
        let noted = AtomicU64::new(IDLE);
        Self { noted }
    }

    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }
}

/// The reader of one thread, which threads do not share.
///
/// It is *idle* or *busy*. An idle reader delays no writer; each section costs it a fence. A busy
/// reader enters a section with a load and a comparison, and delays writers until it enters the next
/// section or gets idle.
pub struct Reader {
    domain: Domain,
    slot: Arc<Slot>,
    /// A copy of the slot's value, for comparing without loading the slot.
    noted: u64,
    /// Readers move between threads but are used by one at a time.
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Reader {
    pub(super) fn new(domain: Domain, slot: Arc<Slot>) -> Self {
        Self {
            domain,
            slot,
            noted: IDLE,
            not_sync: PhantomData,
        }
    }

    /// Begins a read-side section: no object that the reader finds in it is freed before its end.
    ///
    /// An idle reader is busy only for the time of the section.
    #[inline]
    pub fn enter(&mut self) -> Section<'_> {
        if self.noted == IDLE {
            self.busy();
            return Section {
                reader: self,
                then_idle: true,
            };
        }
        self.quiesce();
        Section {
            reader: self,
            then_idle: false,
        }
    }

    /// Makes the reader busy until [`idle`](Self::idle).
    pub fn busy(&mut self) {
        if self.noted == IDLE {
            self.noted = self.domain.epoch();
            // Release: a writer may see this epoch without having seen that the reader was idle before.
            self.slot.noted.store(self.noted, Ordering::Release);
            // Pairs with the writer's fence: see `Domain::oldest`.
            fence(Ordering::SeqCst);
        }
    }

    /// Makes the reader idle, for the time in which the thread waits or runs the guest.
    #[inline]
    pub fn idle(&mut self) {
        self.noted = IDLE;
        // Release: the reader's accesses to the objects that it found come before.
        self.slot.noted.store(IDLE, Ordering::Release);
    }

    /// Notes that the reader holds nothing from earlier sections. A busy reader stays busy, an idle one idle.
    #[inline]
    pub fn quiesce(&mut self) {
        let epoch = self.domain.epoch();
        if epoch != self.noted && self.noted != IDLE {
            self.noted = epoch;
            self.slot.noted.store(epoch, Ordering::Release);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.idle();
        self.domain.leave(&self.slot);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("noted", &self.noted)
            .finish_non_exhaustive()
    }
}

/// A read-side section, which ends when this is dropped.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r mut Reader,
    then_idle: bool,
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.then_idle {
            self.reader.idle();
        }
    }
}
