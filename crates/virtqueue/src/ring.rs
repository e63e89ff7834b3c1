//! What both kinds of ring share: the trait through which a driver side and pollers on other threads read a ring, and
//! the 32-bit form of a position, whose low half is an index of the ring (positions: see [`super::poll`]).

use super::memory::RingMemory;

/// Seals the traits that only this crate implements.
pub trait Sealed {}

/// A ring of either kind: a [`SplitRing`](crate::SplitRing) or a [`PackedRing`](crate::PackedRing), and no other type.
pub trait Ring: Clone + Sealed {
    /// The memory that the ring is in.
    type Memory: RingMemory;

    #[doc(hidden)]
    fn memory(&self) -> &Self::Memory;

    /// Initializes the ring, before the device may access it.
    #[doc(hidden)]
    fn clear(&self);

    /// The 32-bit form of a position, relative to the last reset.
    #[doc(hidden)]
    fn opaque(position: u64) -> u32;

    /// How many buffers the device has used from an index on; the index is the low half of an opaque value. A packed
    /// ring shows only whether the first buffer is used, and then returns the highest number. The result does not
    /// distinguish laps. Acquires what the device wrote.
    #[doc(hidden)]
    fn used_since(&self, index: u16) -> u16;
}

/// The index in an opaque value.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(super) const fn index(opaque: u32) -> u16 {
    opaque as u16
}

/// The opaque value of a position on a split ring, counted from the last reset.
#[expect(clippy::cast_possible_truncation, reason = "the horizon of 32 bits")]
pub(super) const fn split_opaque(position: u64) -> u32 {
    position as u32
}

/// The opaque value on a packed ring: bit 15 of the index is the used wrap counter, which is 1 in even laps.
#[expect(clippy::cast_possible_truncation, reason = "the horizon of 32 bits")]
pub(super) const fn packed_opaque(position: u64) -> u32 {
    let wrap = !(position >> 16) & 1;
    position as u32 | (wrap as u32) << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_opaque_has_laps_above_and_the_index_below() {
        assert_eq!(split_opaque(0xffff), 0x0000_ffff);
        assert_eq!(
            split_opaque(0x1_0000),
            0x0001_0000,
            "index 0xffff -> 0, wraps 0 -> 1"
        );
        assert_eq!(split_opaque(0xffff_ffff), 0xffff_ffff);
        assert_eq!(split_opaque(1 << 32), 0, "the horizon");
    }

    #[test]
    fn packed_opaque_has_the_wrap_counter_in_bit_15() {
        assert_eq!(packed_opaque(0), 0x0000_8000);
        assert_eq!(packed_opaque(7), 0x0000_8007);
        assert_eq!(packed_opaque(1 << 16 | 7), 0x0001_0007);
        assert_eq!(packed_opaque(2 << 16 | 7), 0x0002_8007);
        assert_eq!(packed_opaque(1 << 32 | 7), 0x0000_8007, "the horizon");
    }
}
