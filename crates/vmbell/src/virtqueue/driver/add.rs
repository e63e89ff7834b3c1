//! Makes a buffer available (virtio 1.3, 2.7.13 and 2.8.21): checks it, writes its descriptors and publishes them.

use super::{Driver, Side};
use crate::virtqueue::{
    AddError, Brand, Buffer, NotAdded,
    descriptor::{INDIRECT, WRITE},
};

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    #[inline]
    pub(super) fn add_buffer(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        match (readable, writable) {
            ([buffer], []) => self.add_single(*buffer, 0, 0, data),
            ([], [buffer]) => self.add_single(*buffer, WRITE, buffer.len, data),
            _ => self.add_pieces(readable, writable, data),
        }
    }

    #[inline]
    fn add_single(
        &mut self,
        buffer: Buffer,
        flags: u16,
        writable_len: u32,
        data: T,
    ) -> Result<(), NotAdded<T>> {
        if self.free == 0 {
            let error = self.refusal(1, 1, self.side.size(), 0);
            return Err(NotAdded { error, data });
        }
        let head = self.slots.first();
        self.slots.take(head, head, 1, writable_len, data);
        self.free -= 1;
        self.side.offer(head, buffer, flags);
        Ok(())
    }

    #[inline(never)]
    fn add_pieces(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        let pieces = readable.len() + writable.len();
        let (len, writable_len) = Buffer::lengths(readable, writable);
        let (needed, limit) = match &self.tables {
            Some(tables) => (1, tables.entries()),
            None => (pieces, self.side.size()),
        };
        // For no pieces the subtraction wraps to more than any limit.
        if pieces.wrapping_sub(1) >= usize::from(limit)
            || needed > usize::from(self.free)
            || len > u64::from(u32::MAX)
        {
            let error = self.refusal(pieces, needed, limit, len);
            return Err(NotAdded { error, data });
        }
        let head = self.slots.first();
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        let (count, writable_len) = (needed as u16, writable_len as u32);
        self.free -= count;
        if let Some(tables) = &self.tables {
            let (addr, bytes) = tables.fill(head, readable, writable, S::LINKED);
            self.slots.take(head, head, 1, writable_len, data);
            self.side.offer(head, Buffer::new(addr, bytes), INDIRECT);
        } else {
            let pieces = (readable, writable);
            let (last, written) = self.side.write_chain(&self.slots, head, pieces, needed);
            self.slots.take(head, last, count, writable_len, data);
            self.side.publish(written);
        }
        Ok(())
    }

    /// Why a buffer of `pieces` that needs `needed` descriptors cannot be added.
    #[cold]
    fn refusal(&self, pieces: usize, needed: usize, limit: u16, len: u64) -> AddError {
        if let Some(error) = self.broken {
            return AddError::Broken(error);
        }
        AddError::why(pieces, needed, limit, len, self.free)
    }
}
