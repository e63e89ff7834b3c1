//! The readers' side: one [`Reader`] for each thread.

use std::{fmt, marker::PhantomData};

use super::{
    barrier::Barrier,
    domain::{Domain, IDLE, Slot},
    sync::{Arc, Ordering},
};

/// The reader of one thread; threads do not share it. It delays writers only while it is in a section.
pub struct Reader {
    domain: Domain,
    slot: Arc<Slot>,
    barrier: Barrier,
    /// A reader may move to another thread, but only one thread at a time uses it.
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Domain {
    /// A new reader for one thread.
    pub fn reader(&self) -> Reader {
        Reader {
            domain: self.clone(),
            slot: self.join(),
            barrier: self.barrier(),
            not_sync: PhantomData,
        }
    }
}

impl Reader {
    /// Begins a read-side section: an object that the reader finds in the section is not freed before the section ends.
    #[inline]
    pub fn enter(&mut self) -> Section<'_> {
        let epoch = self.domain.epoch();
        // Release: a writer that sees this epoch may not have seen that the previous section ended.
        self.slot.noted.store(epoch, Ordering::Release);
        // Pairs with the writer's barrier: see `Domain::oldest`.
        self.barrier.pass();
        Section { reader: self }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.domain.leave(&self.slot);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("noted", &self.slot.noted())
            .finish_non_exhaustive()
    }
}

/// A read-side section, which ends when the value is dropped.
#[derive(Debug)]
pub struct Section<'r> {
    reader: &'r Reader,
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: accesses to the objects that the reader found come before this store.
        self.reader.slot.noted.store(IDLE, Ordering::Release);
    }
}
