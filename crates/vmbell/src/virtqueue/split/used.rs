//! Consumes used buffers of a split ring (virtio 1.3, 2.7.8, 2.7.9 and 2.7.14).

use crate::virtqueue::{Brand, QueueError, Used, memory::RingMemory};

use super::SplitDriver;

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    #[inline]
    pub(super) fn take_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        if self.side.index() == self.side.used_idx && !self.look() {
            return self.broken.map_or(Ok(None), Err);
        }
        if self.features.in_order {
            return self.next_in_order().map(Some);
        }
        let (id, len) = self.side.ring.used(self.side.index());
        self.consume(id, len).map(Some)
    }

    /// Loads the device's used index; returns whether there is a used buffer and the queue is not broken.
    #[inline]
    fn look(&mut self) -> bool {
        // Acquire: the device has written the elements before the index before that.
        let index = self.side.ring.used_idx();
        let ahead = index.wrapping_sub(self.side.index());
        if ahead > self.side.outstanding() {
            self.too_far(index);
        }
        if ahead == 0 || self.broken.is_some() {
            return false;
        }
        self.side.used_idx = index;
        true
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        // Makes `take_used` take its slow path, which returns the error.
        self.side.used_idx = self.side.index();
        self.break_with(error)
    }

    #[cold]
    fn too_far(&mut self, index: u16) {
        if self.broken.is_none() {
            self.fail(QueueError::UsedAhead {
                index,
                consumed: self.side.index(),
                outstanding: self.side.outstanding(),
            });
        }
    }

    /// Takes buffer `id` back; `len` is the number of bytes that the device says it wrote.
    #[inline(always)]
    fn consume(&mut self, id: u32, len: u32) -> Result<Used<T>, QueueError> {
        let returned = match self.slots.give_back(id, len, true) {
            Ok(returned) => returned,
            Err(error) => return Err(self.fail(error)),
        };
        self.free += returned.count;
        self.side.position += 1;
        self.state.set_position(self.side.position);
        // Only at the last used buffer that is known: the device's index is past any earlier event.
        if self.armed && self.side.index() == self.side.used_idx {
            self.ask(self.side.index());
        }
        let data = returned.data;
        Ok(Used { data, len })
    }

    /// Takes the oldest buffer of an in-order ring, where one used element stands for all buffers up to the one that
    /// it names.
    #[inline(never)]
    fn next_in_order(&mut self) -> Result<Used<T>, QueueError> {
        let (last, len) = match self.side.batch.take() {
            Some(batch) => batch,
            None => self.side.ring.used(self.side.index()),
        };
        let oldest = u32::from(self.slots.oldest());
        let len = if oldest == last {
            len
        } else {
            let whole = match self.slots.skipped(oldest, last) {
                Ok(whole) => whole,
                Err(error) => return Err(self.fail(error)),
            };
            let index = self.side.used_idx;
            if self.side.index().wrapping_add(1) == index {
                return Err(self.fail(QueueError::BatchPastIndex { id: last, index }));
            }
            self.side.batch = Some((last, len));
            whole
        };
        self.consume(oldest, len)
    }
}
