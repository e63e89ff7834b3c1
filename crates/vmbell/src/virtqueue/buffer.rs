//! Buffers that a driver makes available, and used buffers that it gets back.

use super::{QueueError, UsedError};

/// The memory that one descriptor names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Its start, a guest-physical address.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
}

impl Buffer {
    /// A buffer of `len` bytes at `addr`.
    pub const fn new(addr: u64, len: u32) -> Self {
        Self { addr, len }
    }

    /// The buffer of a descriptor that the driver wrote; an error if its end does not fit in 64 bits.
    #[inline]
    pub(super) fn checked(addr: u64, len: u32) -> Result<Self, QueueError> {
        if addr.checked_add(u64::from(len)).is_none() {
            return Err(QueueError::BufferWraps { addr, len });
        }
        Ok(Self { addr, len })
    }

    /// The total length of all pieces, and of the writable ones, in bytes.
    pub(super) fn lengths(readable: &[Self], writable: &[Self]) -> (u64, u64) {
        let sum = |buffers: &[Self]| buffers.iter().map(|b| u64::from(b.len)).sum::<u64>();
        let writable = sum(writable);
        (sum(readable) + writable, writable)
    }
}

/// A buffer that the device has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used<T> {
    /// The data that the driver passed to `add` with the buffer.
    pub data: T,
    /// How many bytes the device says it wrote, at most the writable bytes of the buffer.
    ///
    /// For a buffer that an in-order device skipped in a batch, it is all of its writable bytes
    /// (virtio 1.3, 2.7.9).
    pub len: u32,
}

/// A chain that a device has taken and must give back with `add_used`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a chain that is not given back is lost to the driver"]
pub struct Head {
    /// The first descriptor (split) or the buffer id (packed).
    pub(super) id: u16,
    /// How many ring slots the chain fills: one on a split ring.
    pub(super) slots: u16,
    /// The chain's place in the order of chains: its available index (split) or its first slot (packed).
    pub(super) sequence: u16,
    /// How many bytes the device may write.
    pub(super) writable: u32,
}

impl Head {
    /// The number by which the driver knows the chain: the first descriptor (split) or the buffer id (packed).
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// How many bytes the device may write.
    pub const fn writable_len(&self) -> u32 {
        self.writable
    }

    /// Checks whether the chain may be given back with `len` bytes written; `next` is the chain that is next in
    /// order.
    #[inline]
    pub(super) fn check(&self, len: u32, in_order: bool, next: u16) -> Result<(), UsedError> {
        let (id, writable) = (self.id, self.writable);
        if len > writable {
            return Err(UsedError::LengthPastChain { id, len, writable });
        }
        if in_order && self.sequence != next {
            return Err(UsedError::OutOfOrder { id });
        }
        Ok(())
    }
}
