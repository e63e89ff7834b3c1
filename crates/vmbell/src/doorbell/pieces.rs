//! The memory of the [table](stub::table) as its only writer sees it: words, and the overflow buckets and chunks that are
//! allocated by index.

use stub::table::{AtomicU32, AtomicU64, Ordering};

/// A word of the table, for the only writer.
pub(super) trait Word {
    /// The integer in the word.
    type Value;

    /// Loads what this writer stored last.
    fn get(&self) -> Self::Value;

    /// Stores a value that no reader can reach yet.
    fn set(&self, value: Self::Value);

    /// Stores a value that makes earlier stores reachable for readers (release).
    fn publish(&self, value: Self::Value);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;

            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }

            fn publish(&self, value: $value) {
                self.store(value, Ordering::Release);
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Converts an index to the width that the table's words have.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the table is smaller than 2^29 pieces"
)]
pub(super) const fn link(index: usize) -> u32 {
    index as u32
}

/// Hands out indexes below a limit. 0 is never handed out: it means no piece.
///
/// A piece that the writer unlinks is *retired*: readers may still be on it. The removal that unlinked it takes it, and
/// after a grace period [`recycle`](Self::recycle) makes it free.
#[derive(Debug)]
pub(super) struct Arena {
    /// The lowest index that was never used: the memory from it on has not been touched.
    fresh: usize,
    limit: usize,
    free: Vec<usize>,
    retired: Vec<usize>,
}

impl Arena {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            fresh: 1,
            limit,
            free: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// How many pieces are free.
    pub(super) fn available(&self) -> usize {
        self.free.len() + (self.limit - self.fresh)
    }

    /// How many pieces there are.
    pub(super) const fn capacity(&self) -> usize {
        self.limit - 1
    }

    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            assert!(self.fresh < self.limit, "invariant: checked before taking");
            self.fresh += 1;
            self.fresh - 1
        })
    }

    pub(super) fn retire(&mut self, index: usize) {
        self.retired.push(index);
    }

    /// The pieces that were retired since the last call.
    pub(super) fn take_retired(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.retired)
    }

    pub(super) fn recycle(&mut self, retired: Vec<usize>) {
        self.free.extend(retired);
    }
}
