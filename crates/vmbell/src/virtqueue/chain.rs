//! The buffers of one descriptor chain, read once from memory that the driver can change at any time.

use super::{Buffer, QueueError};

/// The buffers of the chain that a device has taken last; made once and filled anew by every `pop`.
#[derive(Debug)]
pub struct Chain {
    buffers: Box<[Buffer]>,
    len: usize,
    /// How many of the buffers are readable; they come first.
    readable: usize,
    total: u64,
    writable_total: u64,
}

impl Chain {
    /// Room for chains of up to `capacity` buffers; a longer chain breaks the queue.
    ///
    /// A driver may not make chains longer than the queue's size (virtio 1.3, 2.7.5.3.1), but
    /// some do with indirect tables.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            buffers: vec![Buffer::default(); capacity].into(),
            len: 0,
            readable: 0,
            total: 0,
            writable_total: 0,
        }
    }

    /// The buffers that the device reads.
    #[inline]
    pub fn readable(&self) -> &[Buffer] {
        &self.buffers[..self.readable]
    }

    /// The buffers that the device writes.
    #[inline]
    pub fn writable(&self) -> &[Buffer] {
        &self.buffers[self.readable..self.len]
    }

    /// How many bytes the device may read: below 4 GiB.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "push checks the total")]
    pub fn readable_len(&self) -> u32 {
        (self.total - self.writable_total) as u32
    }

    /// How many bytes the device may write: below 4 GiB.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "push checks the total")]
    pub fn writable_len(&self) -> u32 {
        self.writable_total as u32
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        (self.len, self.readable) = (0, 0);
        (self.total, self.writable_total) = (0, 0);
    }

    /// Sets the chain to one descriptor.
    #[inline]
    pub(super) fn set_single(
        &mut self,
        head: u16,
        addr: u64,
        len: u32,
        writable: bool,
    ) -> Result<(), QueueError> {
        let piece = Buffer::checked(addr, len)?;
        let Some(buffer) = self.buffers.first_mut() else {
            return Err(QueueError::ChainTooLong { head, limit: 0 });
        };
        *buffer = piece;
        self.len = 1;
        self.readable = usize::from(!writable);
        self.total = u64::from(len);
        self.writable_total = if writable { u64::from(len) } else { 0 };
        Ok(())
    }

    /// Adds the buffer of one descriptor of chain `head`.
    pub(super) fn push(
        &mut self,
        head: u16,
        addr: u64,
        len: u32,
        writable: bool,
    ) -> Result<(), QueueError> {
        let piece = Buffer::checked(addr, len)?;
        let limit = self.buffers.len();
        let Some(buffer) = self.buffers.get_mut(self.len) else {
            return Err(QueueError::ChainTooLong { head, limit });
        };
        *buffer = piece;
        if writable {
            self.writable_total += u64::from(len);
        } else if self.readable == self.len {
            self.readable += 1;
        } else {
            return Err(QueueError::ReadableAfterWritable { head });
        }
        self.len += 1;
        self.total += u64::from(len);
        if self.total > u64::from(u32::MAX) {
            return Err(QueueError::ChainTooLarge { head });
        }
        Ok(())
    }
}
