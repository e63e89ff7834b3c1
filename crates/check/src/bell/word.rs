//! The state of a notification that is more than an eventfd: bits of one word, which change in one step.
//!
//! An interrupt controller, or a VMM's emulation of it, holds a lock while it changes such bits.

use crate::search::Access;
use crate::task;

/// Bits that change together, such as the mask and the pending bit of an MSI-X vector.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    offset: u16,
}

impl Word {
    pub(crate) fn new(offset: u16) -> Word {
        Word { offset }
    }

    /// Replaces the bits by the result of `change`. Returns the old ones.
    ///
    /// # Panics
    ///
    /// If no task runs.
    pub fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        task::update(self.access(0), |bits| Some(change(bits)))
    }

    /// Sleeps until one of `awaited` is set, then does an [`update`](Self::update). No other task may clear these bits.
    ///
    /// # Panics
    ///
    /// If no task runs.
    pub fn wait(&self, awaited: u64, change: impl Fn(u64) -> u64) -> u64 {
        task::update(self.access(awaited), |bits| Some(change(bits)))
    }

    fn access(&self, awaits: u64) -> Access {
        super::word(self.offset, awaits)
    }
}
