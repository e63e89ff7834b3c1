//! The two kinds of ring, and the arithmetic of the 16-bit indices that states have of them.

use super::RestoreError;
use crate::virtqueue::token;

/// Split or packed: the format of a ring (virtio 1.3, 2.7 and 2.8), which decides what an index of a state is.
///
/// On a split ring an index is the ring's own, which counts buffers modulo 65,536. On a packed ring it is a slot in
/// bits 14:0 and the wrap counter in bit 15, as in virtio's event suppression structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// A split ring.
    Split,
    /// A packed ring.
    Packed,
}

impl RingKind {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Split => 0,
            Self::Packed => 1,
        }
    }

    pub(super) fn of_code(code: u8) -> Result<Self, RestoreError> {
        match code {
            0 => Ok(Self::Split),
            1 => Ok(Self::Packed),
            _ => {
                let (field, value) = ("ring", code.into());
                Err(RestoreError::Undefined { field, value })
            }
        }
    }

    /// How many entries of the driver's list a buffer has that fills this many slots.
    pub(in crate::virtqueue) fn entries(self, slots: u16) -> usize {
        match self {
            Self::Split => usize::from(slots),
            Self::Packed => 1,
        }
    }

    /// The index of a position: see [`token`].
    pub(super) const fn index(self, position: u64) -> u16 {
        token::index(match self {
            Self::Split => token::split_opaque(position),
            Self::Packed => token::packed_opaque(position),
        })
    }

    /// How many buffers (split) or slots (packed) `to` is after `from`: at most `size`. An error if no ring of this
    /// size has both indices at one time.
    pub(super) fn distance(
        self,
        field: &'static str,
        from: u16,
        to: u16,
        size: u16,
    ) -> Result<u16, RestoreError> {
        let distance = match self {
            Self::Split => Some(to.wrapping_sub(from)),
            Self::Packed => {
                let ((from, to), wrapped) = ((from & SLOT, to & SLOT), (from ^ to) & !SLOT != 0);
                let lap = if wrapped { size } else { 0 };
                let inside = from < size && to < size;
                // A slot has 15 bits and a size is at most 32768, so the sum has 16.
                (to + lap).checked_sub(from).filter(|_| inside)
            }
        };
        distance
            .filter(|&distance| distance <= size)
            .ok_or(RestoreError::Apart {
                field,
                from,
                to,
                size,
            })
    }
}

/// The bits of a packed ring's index that are the slot.
pub(super) const SLOT: u16 = 0x7fff;
