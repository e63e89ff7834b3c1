//! Making a buffer available on a split ring (virtio 1.3, 2.7.13).

use crate::virtqueue::{
    AddError, Brand, Buffer, NotAdded,
    descriptor::{INDIRECT, NEXT, WRITE, split::rest},
    memory::RingMemory,
};

use super::SplitDriver;

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
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
        let head = self.slots.next(self.slots.before());
        self.ring
            .set_descriptor(head, buffer.addr, rest(buffer.len, flags, 0));
        self.slots.take(head, head, 1, writable_len, data);
        self.free -= 1;
        self.publish(head);
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
        let (head, last) = self.write_chain(readable, writable, needed);
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        let (count, writable_len) = (needed as u16, writable_len as u32);
        self.slots.take(head, last, count, writable_len, data);
        self.free -= count;
        self.publish(head);
        Ok(())
    }

    /// Fills free descriptors in the order of the list; gives the first and the last.
    fn write_chain(&self, readable: &[Buffer], writable: &[Buffer], needed: usize) -> (u16, u16) {
        let mut last = self.slots.before();
        let head = self.slots.next(last);
        let mut left = needed;
        let mut write = |buffer: &Buffer, flags: u16| {
            last = self.slots.next(last);
            left -= 1;
            let rest = match left {
                0 => rest(buffer.len, flags, 0),
                _ => rest(buffer.len, flags | NEXT, self.slots.next(last)),
            };
            self.ring.set_descriptor(last, buffer.addr, rest);
        };
        for buffer in readable {
            write(buffer, 0);
        }
        for buffer in writable {
            write(buffer, WRITE);
        }
        (head, last)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    fn publish(&mut self, head: u16) {
        self.ring.set_avail(self.available as u16, head);
        self.available += 1;
        // Release: whoever sees the index sees the descriptors and the entry.
        self.ring.publish_avail(self.available as u16);
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
        let head = self.slots.next(self.slots.before());
        let (addr, bytes) = tables.fill(head, readable, writable, true);
        self.ring
            .set_descriptor(head, addr, rest(bytes, INDIRECT, 0));
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        self.slots.take(head, head, 1, writable_len as u32, data);
        self.free -= 1;
        self.publish(head);
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
