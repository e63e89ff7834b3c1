//! Indirect tables of descriptors (virtio 1.3, 2.7.5.3 and 2.8.7).
//!
//! The driver side has one table for each descriptor or buffer id, reserved at set-up, so that adding a buffer
//! allocates nothing. The device side reads the table that the driver names, anywhere in memory.

use std::sync::atomic::AtomicU8;

use super::descriptor::{
    BYTES, Buffer, Chain, Descriptor, INDIRECT, NEXT, WRITE, len, packed, split,
};
use super::error::{QueueError, SetupError};
use super::features::Features;
use super::memory::{RingMemory, Words, slice};
use super::sync::Ordering;

/// The driver side's tables.
#[derive(Debug)]
pub(super) struct Tables<M> {
    descriptors: Words<Descriptor, M>,
    addr: u64,
    entries: u16,
}

impl<M: RingMemory> Tables<M> {
    /// Finds `size` consecutive tables of `entries` descriptors each, from `addr` on.
    pub(super) fn resolve(
        memory: &M,
        addr: u64,
        size: u16,
        entries: u16,
        features: Features,
    ) -> Result<Self, SetupError> {
        let negotiated = features.indirect;
        if entries == 0 || !negotiated {
            return Err(SetupError::Indirect {
                entries,
                negotiated,
            });
        }
        let count = usize::from(size) * usize::from(entries);
        let align = BYTES as u64;
        let descriptors = Words::resolve(memory, "indirect tables", addr, count, align)?;
        Ok(Self {
            descriptors,
            addr,
            entries,
        })
    }

    pub(super) fn entries(&self) -> u16 {
        self.entries
    }

    /// The address of the first table, and the number of entries of each table.
    pub(super) fn place(&self) -> (u64, u16) {
        (self.addr, self.entries)
    }

    /// Fills table number `table`; returns its address and its length in bytes.
    ///
    /// `linked` makes each descriptor name the next, as a split ring requires.
    pub(super) fn fill(
        &self,
        table: u16,
        readable: &[Buffer],
        writable: &[Buffer],
        linked: bool,
    ) -> (u64, u32) {
        let first = usize::from(table) * usize::from(self.entries);
        let table = &self.descriptors.all()[first..first + usize::from(self.entries)];
        let needed = readable.len() + writable.len();
        let pieces = readable.iter().map(|buffer| (buffer, 0));
        let pieces = pieces.chain(writable.iter().map(|buffer| (buffer, WRITE)));
        for ((descriptor, (buffer, flags)), next) in table.iter().zip(pieces).zip(1_u16..) {
            let rest = match (linked, usize::from(next) < needed) {
                (true, true) => split::rest(buffer.len, flags | NEXT, next),
                (true, false) => split::rest(buffer.len, flags, 0),
                (false, _) => packed::rest(buffer.len, 0, flags),
            };
            descriptor.store(buffer.addr, rest, Ordering::Relaxed);
        }
        let offset = (first * BYTES) as u64;
        // The conversion cannot fail: a table has fewer than 2^16 entries.
        let bytes = u32::try_from(needed * BYTES).unwrap_or(0);
        (self.addr + offset, bytes)
    }
}

/// A table that the driver names. Each descriptor is read once, into a copy.
#[derive(Debug)]
pub(super) enum Table<'m> {
    /// A table that is aligned for [`Descriptor`], the usual case.
    Aligned(&'m [Descriptor]),
    /// An unaligned table: virtio does not require it to be aligned.
    Bytes(&'m [AtomicU8]),
}

impl<'m> Table<'m> {
    /// Finds the table of `len` bytes at `addr`, which a descriptor of chain `head` names.
    pub(super) fn of<M: RingMemory>(
        memory: &'m M,
        head: u16,
        addr: u64,
        len: u32,
    ) -> Result<Self, QueueError> {
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        if bytes == 0 || !bytes.is_multiple_of(BYTES) {
            return Err(QueueError::IndirectLength { head, len });
        }
        slice(memory, addr, bytes / BYTES)
            .map(Self::Aligned)
            .or_else(|| slice(memory, addr, bytes).map(Self::Bytes))
            .ok_or(QueueError::IndirectOutside { addr, len })
    }

    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Aligned(descriptors) => descriptors.len(),
            Self::Bytes(bytes) => bytes.len() / BYTES,
        }
    }

    /// Both words of descriptor `index`; `None` past the end of the table.
    pub(super) fn load(&self, index: usize) -> Option<(u64, u64)> {
        match self {
            Self::Aligned(descriptors) => descriptors.get(index).map(Descriptor::load),
            Self::Bytes(bytes) => {
                let bytes = bytes.chunks_exact(BYTES).nth(index)?;
                let word = |at: usize| {
                    let byte = |i: usize| bytes[at + i].load(Ordering::Relaxed);
                    u64::from_le_bytes(std::array::from_fn(byte))
                };
                Some((word(0), word(8)))
            }
        }
    }

    /// Adds all descriptors in the order of the table, as on a packed ring.
    pub(super) fn push_all(&self, head: u16, chain: &mut Chain) -> Result<(), QueueError> {
        for index in 0..self.entries() {
            let Some((addr, rest)) = self.load(index) else {
                break;
            };
            let flags = packed::flags(rest);
            if flags & INDIRECT != 0 {
                return Err(QueueError::IndirectMisplaced { head });
            }
            chain.push(head, addr, len(rest), flags & WRITE != 0)?;
        }
        Ok(())
    }

    /// Adds the descriptors of the chain that begins with the table's first descriptor, as on a split ring.
    pub(super) fn push_linked(&self, head: u16, chain: &mut Chain) -> Result<(), QueueError> {
        let mut index = 0;
        for _ in 0..self.entries() {
            let Some((addr, rest)) = self.load(index) else {
                let size = u16::try_from(self.entries()).unwrap_or(u16::MAX);
                let id = u32::try_from(index).unwrap_or(u32::MAX);
                return Err(QueueError::IdOutOfRange { id, size });
            };
            let flags = split::flags(rest);
            if flags & INDIRECT != 0 {
                return Err(QueueError::IndirectMisplaced { head });
            }
            chain.push(head, addr, len(rest), flags & WRITE != 0)?;
            if flags & NEXT == 0 {
                return Ok(());
            }
            index = usize::from(split::next(rest));
        }
        Err(QueueError::Loop { head })
    }
}
