//! Allocates overflow buckets and chunks of the [table](stub::table) by index.
//!
//! A piece that the writer unlinks is *retired*: readers may still be on it. The removal that unlinked it takes it, and
//! after a grace period [`recycle`](Arena::recycle) makes it free.

/// Hands out indexes below a limit. 0 is never handed out: it means no piece.
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
