//! The readers' side: one handle a thread.

use std::{fmt, marker::PhantomData};

use super::{
    Domain,
    sync::{Arc, AtomicU64, Ordering, fence},
};

/// What an idle reader has noted.
pub(super) const IDLE: u64 = 0;

/// What a reader tells the writers, on a cache line (and its prefetched twin) of its own.
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

/// A thread's right to read. Not for sharing: each thread has its own.
///
/// It is *idle* or *busy*. An idle reader holds nobody up; each section costs it a fence. A busy
/// one enters sections for a load and a comparison, and holds writers up until it enters the next
/// section or gets idle.
pub struct Reader {
    domain: Domain,
    slot: Arc<Slot>,
    /// The slot's content, to be compared without loading it.
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

    /// Begins a section, in which nothing that the reader gets hold of is freed.
    ///
    /// An idle reader is busy for the time of the section only.
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

    /// Gets busy.
    pub fn busy(&mut self) {
        if self.noted == IDLE {
            self.noted = self.domain.epoch();
            // Release: a writer may see this epoch and never the idle time before it.
            self.slot.noted.store(self.noted, Ordering::Release);
            // Against the writer's: see `Domain::oldest`.
            fence(Ordering::SeqCst);
        }
    }

    /// Gets idle, for the time that the thread waits or runs the guest.
    #[inline]
    pub fn idle(&mut self) {
        self.noted = IDLE;
        // Release: what the reader did with its finds is done.
        self.slot.noted.store(IDLE, Ordering::Release);
    }

    /// Notes that the reader holds nothing from earlier sections; only its epoch changes.
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

/// A time in which a reader may hold what it finds. Ends when it is dropped.
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
