//! Numbered pieces of the table that come and go: overflow buckets and list chunks.
//!
//! A piece that the writer cuts off is *retired*: readers may still stand on it. After a grace
//! period [`recycle`](Arena::recycle) makes it free.

/// Hands out indexes below a limit; 0 is never handed out, it means none.
#[derive(Debug)]
pub(super) struct Arena {
    /// The lowest index never used: memory above it has not been touched.
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

    /// How many can be taken at once.
    pub(super) fn available(&self) -> usize {
        self.free.len() + (self.limit - self.fresh)
    }

    /// How many there are.
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

    pub(super) fn recycle(&mut self) {
        self.free.append(&mut self.retired);
    }
}
