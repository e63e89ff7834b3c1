//! Descriptors as two little-endian words (virtio 1.3, 2.7.5 and 2.8.13).
//!
//! The first word is the address. The second has all other fields, so that one load or store accesses them together,
//! and a single store publishes a packed descriptor.

use super::sync::{AtomicU64, Ordering};

/// `VIRTQ_DESC_F_NEXT`: the chain continues with another descriptor.
pub(super) const NEXT: u16 = 1 << 0;
/// `VIRTQ_DESC_F_WRITE`: the device writes the buffer.
pub(super) const WRITE: u16 = 1 << 1;
/// `VIRTQ_DESC_F_INDIRECT`: the buffer is a table of descriptors.
pub(super) const INDIRECT: u16 = 1 << 2;
/// Packed: equal to the driver's wrap counter if the driver made the descriptor available.
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
