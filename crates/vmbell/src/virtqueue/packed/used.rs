//! Consumes used buffers of a packed ring (virtio 1.3, 2.8.5, 2.8.9 and 2.8.22).

use crate::virtqueue::{
    Brand, QueueError, Used,
    descriptor::{self, WRITE},
    memory::RingMemory,
};

use super::PackedDriver;

impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
    #[inline]
    pub(super) fn take_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if self.features.in_order {
            return self.next_in_order();
        }
        let Some((id, len)) = self.look() else {
            return Ok(None);
        };
        self.consume(id, len)
    }

    /// Id and length of the next used descriptor, if the device has written it.
    #[inline]
    fn look(&self) -> Option<(u16, u32)> {
        // Acquire: the device has written the buffer before that.
        let rest = self.side.ring.look(self.side.position);
        let flags = descriptor::packed::flags(rest);
        if !self.side.position.is_used(flags) {
            return None;
        }
        // The length is valid only with the flag WRITE (virtio 1.3, 2.8.5).
        let len = if flags & WRITE == 0 {
            0
        } else {
            descriptor::len(rest)
        };
        Some((descriptor::packed::id(rest), len))
    }

    /// Takes buffer `id` back; `len` is the number of bytes that the device says it wrote.
    #[inline(always)]
    fn consume(&mut self, id: u16, len: u32) -> Result<Option<Used<T>>, QueueError> {
        let Some(returned) = self.slots.give_back(u32::from(id), len, false) else {
            return self.refuse(id, len);
        };
        self.free += returned.count;
        self.side.position = self
            .side
            .position
            .advance(returned.count, self.side.ring.size());
        self.state.set_position(self.side.position.0);
        // Only if no further descriptor is used: the device is past any earlier event.
        if self.armed && !self.side.is_used(self.side.position) {
            self.ask(self.side.position);
        }
        let data = returned.data;
        Ok(Some(Used { data, len }))
    }

    /// Breaks the queue because of its used descriptor. It is out of line and returns what `take_used` returns:
    /// `take_used` jumps to it at its end, and so has no values to save for a call.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, id: u16, len: u32) -> Result<Option<Used<T>>, QueueError> {
        let error = self.slots.refusal(u32::from(id), len);
        Err(self.break_with(error))
    }

    /// Takes the oldest buffer of an in-order ring, where one used descriptor stands for all buffers up to the one
    /// that it names.
    #[inline(never)]
    fn next_in_order(&mut self) -> Result<Option<Used<T>>, QueueError> {
        let batch = self.side.batch.take().or_else(|| self.look());
        let Some((last, len)) = batch else {
            return Ok(None);
        };
        let oldest = self.slots.oldest();
        let len = if oldest == last {
            len
        } else {
            let whole = match self.slots.skipped(u32::from(oldest), u32::from(last)) {
                Ok(whole) => whole,
                Err(error) => return Err(self.break_with(error)),
            };
            self.side.batch = Some((last, len));
            whole
        };
        self.consume(oldest, len)
    }
}
