//! Making a buffer available on a packed ring (virtio 1.3, 2.8.6 and 2.8.21).

use crate::virtqueue::{
    AddError, Brand, Buffer, NotAdded,
    descriptor::{INDIRECT, NEXT, WRITE, packed::rest},
    memory::RingMemory,
    sync::Ordering,
};

use super::{PackedDriver, position::Position};

impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
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
            _ if self.tables.is_some() => self.add_indirect(readable, writable, data),
            _ => self.add_chain(readable, writable, data),
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
            let error = self.refusal(1, 1, self.ring.size(), 0);
            return Err(NotAdded { error, data });
        }
        let id = self.slots.next(self.slots.before());
        let at = self.available;
        let rest = rest(buffer.len, id, flags | at.available());
        self.slots.take(id, id, 1, writable_len, data);
        // Release: whoever sees the flags sees the address.
        self.ring.at(at).store(buffer.addr, rest, Ordering::Release);
        self.available = at.advance(1, self.ring.size());
        self.free -= 1;
        Ok(())
    }

    #[inline(never)]
    fn add_chain(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        let needed = readable.len() + writable.len();
        let (len, writable_len) = Buffer::lengths(readable, writable);
        // No pieces at all wrap to more than there can be.
        if needed.wrapping_sub(1) >= usize::from(self.free) || len > u64::from(u32::MAX) {
            let error = self.refusal(needed, needed, self.ring.size(), len);
            return Err(NotAdded { error, data });
        }
        let id = self.slots.next(self.slots.before());
        let (next, first) = self.write_chain(readable, writable, needed, id);
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        let (count, writable_len) = (needed as u16, writable_len as u32);
        self.slots.take(id, id, count, writable_len, data);
        self.publish(first, next, count);
        Ok(())
    }

    /// Fills the next slots, all but the second word of the first; gives where the chain ends and
    /// that word.
    fn write_chain(
        &self,
        readable: &[Buffer],
        writable: &[Buffer],
        needed: usize,
        id: u16,
    ) -> (Position, u64) {
        let size = self.ring.size();
        let mut at = self.available;
        let mut left = needed;
        let mut first = 0;
        let mut write = |buffer: &Buffer, flags: u16| {
            left -= 1;
            let more = if left == 0 { 0 } else { NEXT };
            let rest = rest(buffer.len, id, flags | more | at.available());
            if at == self.available {
                first = rest;
                self.ring.at(at).store_addr(buffer.addr);
            } else {
                // The device does not look here before it has seen the first.
                self.ring.at(at).store(buffer.addr, rest, Ordering::Relaxed);
            }
            at = at.advance(1, size);
        };
        for buffer in readable {
            write(buffer, 0);
        }
        for buffer in writable {
            write(buffer, WRITE);
        }
        (at, first)
    }

    /// Release: whoever sees the flags sees the whole chain.
    #[inline]
    fn publish(&mut self, first: u64, next: Position, count: u16) {
        let head = self.ring.at(self.available);
        head.store_rest(first, Ordering::Release);
        self.available = next;
        self.free -= count;
    }

    #[inline(never)]
    fn add_indirect(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        let needed = readable.len() + writable.len();
        let (len, writable_len) = Buffer::lengths(readable, writable);
        let limit = self.tables.as_ref().map_or(0, |tables| tables.entries());
        let tables = self.tables.as_ref().filter(|_| {
            self.free > 0
                && needed > 0
                && needed <= usize::from(limit)
                && u32::try_from(len).is_ok()
        });
        let Some(tables) = tables else {
            let error = self.refusal(needed, 1, limit, len);
            return Err(NotAdded { error, data });
        };
        let id = self.slots.next(self.slots.before());
        let (addr, bytes) = tables.fill(id, readable, writable, false);
        let first = rest(bytes, id, INDIRECT | self.available.available());
        self.ring.at(self.available).store_addr(addr);
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        self.slots.take(id, id, 1, writable_len as u32, data);
        let next = self.available.advance(1, self.ring.size());
        self.publish(first, next, 1);
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
