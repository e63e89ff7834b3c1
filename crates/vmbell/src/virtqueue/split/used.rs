//! Consumes used buffers of a split ring (virtio 1.3, 2.7.8, 2.7.9 and 2.7.14).
//!
//! The functions that refuse are out of line and return what `take_used` returns. `take_used` jumps to them at its
//! end, and so has no values to save for a call.

use crate::virtqueue::{Brand, QueueError, Used, memory::RingMemory};

use super::SplitDriver;

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    #[inline]
    pub(super) fn take_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        if self.side.index() == self.side.used_idx {
            // Acquire: the device has written the elements before the index before that.
            let index = self.side.ring.used_idx();
            let ahead = index.wrapping_sub(self.side.index());
            if ahead > self.side.outstanding() || self.broken.is_some() {
                return self.refuse_index(index);
            }
            if ahead == 0 {
                return Ok(None);
            }
            self.side.used_idx = index;
        }
        if self.features.in_order {
            return self.next_in_order();
        }
        let (id, len) = self.side.ring.used(self.side.index());
        self.consume(id, len)
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        // Makes `take_used` take its slow path, which returns the error.
        self.side.used_idx = self.side.index();
        self.break_with(error)
    }

    /// Breaks the queue because of its used index, unless it is broken already.
    #[cold]
    #[inline(never)]
    fn refuse_index(&mut self, index: u16) -> Result<Option<Used<T>>, QueueError> {
        Err(match self.broken {
            Some(error) => error,
            None => self.fail(QueueError::UsedAhead {
                index,
                consumed: self.side.index(),
                outstanding: self.side.outstanding(),
            }),
        })
    }

    /// Takes buffer `id` back; `len` is the number of bytes that the device says it wrote.
    #[inline(always)]
    fn consume(&mut self, id: u32, len: u32) -> Result<Option<Used<T>>, QueueError> {
        let Some(returned) = self.slots.give_back(id, len, true) else {
            return self.refuse_element(id, len);
        };
        self.free += returned.count;
        self.side.position += 1;
        self.state.set_position(self.side.position);
        // Only at the last used buffer that is known: the device's index is past any earlier event.
        if self.armed && self.side.index() == self.side.used_idx {
            self.ask(self.side.index());
        }
        let data = returned.data;
        Ok(Some(Used { data, len }))
    }

    /// Breaks the queue because of its used element.
    #[cold]
    #[inline(never)]
    fn refuse_element(&mut self, id: u32, len: u32) -> Result<Option<Used<T>>, QueueError> {
        let error = self.slots.refusal(id, len);
        Err(self.fail(error))
    }

    /// Takes the oldest buffer of an in-order ring, where one used element stands for all buffers up to the one that
    /// it names.
    #[inline(never)]
    fn next_in_order(&mut self) -> Result<Option<Used<T>>, QueueError> {
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
