//! Descriptors in shared memory (virtio 1.3, 2.7.5 and 2.8.13), and the buffers and chains that they describe.
//!
//! A descriptor is two little-endian words. The first is the address. The second has all other fields, so that one load
//! or store accesses them together, and a single store publishes a packed descriptor. A device side reads each
//! descriptor of a chain once, because the driver can change it at any time.

use super::error::{QueueError, UsedError};
use super::hint::unlikely;
use super::sync::{AtomicU64, Ordering};

/// `VIRTQ_DESC_F_NEXT`: the chain continues with another descriptor.
pub(super) const NEXT: u16 = 1 << 0;
/// `VIRTQ_DESC_F_WRITE`: the device writes the buffer.
pub(super) const WRITE: u16 = 1 << 1;
/// `VIRTQ_DESC_F_INDIRECT`: the buffer is a table of descriptors.
pub(super) const INDIRECT: u16 = 1 << 2;
/// Packed: equal to the driver's wrap counter in a descriptor that the driver has made available.
pub(super) const AVAIL: u16 = 1 << 7;
/// Packed: equal to [`AVAIL`] if the device has used the descriptor.
pub(super) const USED: u16 = 1 << 15;

/// Size of a descriptor in bytes.
pub(super) const BYTES: usize = 16;

/// A descriptor in shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Descriptor {
    addr: AtomicU64,
    rest: AtomicU64,
}

impl Descriptor {
    /// Reads both words, each once.
    #[inline]
    pub(super) fn load(&self) -> (u64, u64) {
        (self.load_addr(), self.load_rest(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn load_addr(&self) -> u64 {
        u64::from_le(self.addr.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn load_rest(&self, order: Ordering) -> u64 {
        u64::from_le(self.rest.load(order))
    }

    #[inline]
    pub(super) fn store(&self, addr: u64, rest: u64, order: Ordering) {
        self.store_addr(addr);
        self.store_rest(rest, order);
    }

    #[inline]
    pub(super) fn store_addr(&self, addr: u64) {
        self.addr.store(addr.to_le(), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn store_rest(&self, rest: u64, order: Ordering) {
        self.rest.store(rest.to_le(), order);
    }
}

/// The length in bytes; the field is the same for split and packed rings.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low word")]
pub(super) const fn len(rest: u64) -> u32 {
    rest as u32
}

/// The third field: a split ring's flags, a packed ring's buffer id.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the field is 16 bits")]
const fn third(rest: u64) -> u16 {
    (rest >> 32) as u16
}

/// The fourth field: a split ring's next descriptor, a packed ring's flags.
#[inline]
const fn fourth(rest: u64) -> u16 {
    (rest >> 48) as u16
}

#[inline]
const fn pack(len: u32, third: u16, fourth: u16) -> u64 {
    len as u64 | (third as u64) << 32 | (fourth as u64) << 48
}

/// The order of the fields in split rings.
pub(super) mod split {
    use crate::descriptor::{fourth, pack, third};

    #[inline]
    pub(crate) const fn flags(rest: u64) -> u16 {
        third(rest)
    }

    #[inline]
    pub(crate) const fn next(rest: u64) -> u16 {
        fourth(rest)
    }

    #[inline]
    pub(crate) const fn rest(len: u32, flags: u16, next: u16) -> u64 {
        pack(len, flags, next)
    }
}

/// The order of the fields in packed rings.
pub(super) mod packed {
    use crate::descriptor::{fourth, pack, third};

    #[inline]
    pub(crate) const fn id(rest: u64) -> u16 {
        third(rest)
    }

    #[inline]
    pub(crate) const fn flags(rest: u64) -> u16 {
        fourth(rest)
    }

    #[inline]
    pub(crate) const fn rest(len: u32, id: u16, flags: u16) -> u64 {
        pack(len, id, flags)
    }
}

/// The memory that one descriptor names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Its start: a guest-physical address.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
}

impl Buffer {
    /// A buffer of `len` bytes at `addr`.
    pub const fn new(addr: u64, len: u32) -> Self {
        Self { addr, len }
    }

    /// The buffer of a descriptor that the driver wrote. Fails if its end does not fit in 64 bits.
    #[inline]
    pub(super) fn checked(addr: u64, len: u32) -> Result<Self, QueueError> {
        if addr.checked_add(u64::from(len)).is_none() {
            return Err(QueueError::BufferWraps { addr, len });
        }
        Ok(Self { addr, len })
    }

    /// The total length in bytes of all pieces, and the total length of the writable pieces.
    pub(super) fn lengths(readable: &[Self], writable: &[Self]) -> (u64, u64) {
        let sum = |buffers: &[Self]| buffers.iter().map(|b| u64::from(b.len)).sum::<u64>();
        let writable = sum(writable);
        (sum(readable) + writable, writable)
    }
}

/// A buffer that the device has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Used<T> {
    /// The data that the driver passed to `add` with the buffer.
    pub data: T,
    /// How many bytes the device says it wrote: at most the writable bytes of the buffer.
    ///
    /// If an in-order device skipped the buffer in a batch, this is the number of its writable bytes (virtio 1.3,
    /// 2.7.9).
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
    /// The chain's position in the order of chains: its available index (split) or its first slot (packed).
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

    /// Checks whether the chain may be given back with `len` bytes written. `next` is the position of the next chain in
    /// order.
    #[inline]
    pub(super) fn check(&self, len: u32, in_order: bool, next: u16) -> Result<(), UsedError> {
        let (id, writable) = (self.id, self.writable);
        if len > writable {
            return Err(UsedError::LengthPastChain { id, len, writable });
        }
        if in_order {
            // Keeps a jump out of the usual case.
            unlikely();
            if self.sequence != next {
                return Err(UsedError::OutOfOrder { id });
            }
        }
        Ok(())
    }
}

/// The buffers of the chain that a device took last. It is allocated once, and every `pop` refills
/// it.
#[derive(Debug)]
pub struct Chain {
    buffers: Box<[Buffer]>,
    /// The readable buffers, then the writable buffers. Indexed by whether a buffer is writable, which saves a branch.
    parts: [Part; 2],
}

/// The buffers of one kind. Both kinds together have less than 4 GiB.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    count: u32,
    len: u32,
}

impl Chain {
    /// Room for chains of up to `capacity` buffers; a longer chain breaks the queue.
    ///
    /// A driver must not make a chain longer than the queue's size (virtio 1.3, 2.7.5.3.1), but some drivers do with
    /// indirect tables.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            buffers: vec![Buffer::default(); capacity].into(),
            parts: [Part::default(); 2],
        }
    }

    /// The buffers that the device reads.
    #[inline]
    pub fn readable(&self) -> &[Buffer] {
        &self.buffers[..self.parts[0].count as usize]
    }

    /// The buffers that the device writes.
    #[inline]
    pub fn writable(&self) -> &[Buffer] {
        let [readable, writable] = self.parts.map(|part| part.count as usize);
        &self.buffers[readable..readable + writable]
    }

    /// How many bytes the device may read: below 4 GiB.
    #[inline]
    pub fn readable_len(&self) -> u32 {
        self.parts[0].len
    }

    /// How many bytes the device may write: below 4 GiB.
    #[inline]
    pub fn writable_len(&self) -> u32 {
        self.parts[1].len
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.parts = [Part::default(); 2];
    }

    /// Makes one descriptor the whole chain.
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
        self.clear();
        self.parts[usize::from(writable)] = Part { count: 1, len };
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
        let [readable, writables] = self.parts;
        let count = readable.count as usize + writables.count as usize;
        let Some(buffer) = self.buffers.get_mut(count) else {
            return Err(QueueError::ChainTooLong { head, limit });
        };
        if !writable && writables.count != 0 {
            return Err(QueueError::ReadableAfterWritable { head });
        }
        let total = u64::from(readable.len) + u64::from(writables.len);
        if total + u64::from(len) > u64::from(u32::MAX) {
            return Err(QueueError::ChainTooLarge { head });
        }
        *buffer = piece;
        // Indirect tables and queues have fewer than 2^32 entries.
        let part = &mut self.parts[usize::from(writable)];
        part.count += 1;
        part.len += len;
        Ok(())
    }
}
