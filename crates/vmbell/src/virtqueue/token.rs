//! Poll tokens: what a poller remembers of a queue, and their arithmetic.
//!
//! The driver side counts what it has consumed in a 64-bit *position*: laps in bits 63:16, an
//! index in bits 15:0. On a split ring the index is the ring's own 16-bit index, and a lap is an overflow of
//! that index, so a position is a plain count of buffers. On a packed ring the index is a slot, and a lap is a
//! turn of the ring; the lowest bit of the laps determines the wrap counter (see [`super::packed`]).
//!
//! An [`Opaque`] has 16 bits of laps at most, a [`Token`] all 48.

use std::{fmt, marker::PhantomData};

use super::Brand;

/// A 32-bit token: index in bits 15:0; laps in bits 31:16, zero unless the queue counts wraps.
///
/// Without wraps, a poll misses used buffers if the index wraps to the same value between two polls: on a split
/// ring after exactly 65,536 buffers, on a packed ring if the slot was used and made available again. With wraps,
/// it misses them after 2^16 laps: 2^32 buffers on a split ring.
pub struct Opaque<B> {
    value: u32,
    brand: PhantomData<fn() -> B>,
}

/// A 64-bit token: the whole position, which wraps only after 2^48 laps.
pub struct Token<B> {
    position: u64,
    brand: PhantomData<fn() -> B>,
}

impl<B: Brand> Opaque<B> {
    pub(super) const fn new(value: u32) -> Self {
        let brand = PhantomData;
        Self { value, brand }
    }

    /// The 32-bit value, for drivers that store it as a number.
    pub const fn value(self) -> u32 {
        self.value
    }
}

impl<B: Brand> Token<B> {
    pub(super) const fn new(position: u64) -> Self {
        let brand = PhantomData;
        Self { position, brand }
    }

    /// The position: laps in bits 63:16, index in bits 15:0.
    pub const fn position(self) -> u64 {
        self.position
    }
}

/// The index in an opaque value.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(super) const fn index(opaque: u32) -> u16 {
    opaque as u16
}

/// The opaque value of a position, counted from the last reset, on a split ring.
#[expect(clippy::cast_possible_truncation, reason = "the horizon of 32 bits")]
pub(super) const fn split_opaque(position: u64) -> u32 {
    position as u32
}

/// The same on a packed ring, where bit 15 of the index is the used wrap counter, which is 1 in even laps.
#[expect(clippy::cast_possible_truncation, reason = "the horizon of 32 bits")]
pub(super) const fn packed_opaque(position: u64) -> u32 {
    let wrap = !(position >> 16) & 1;
    position as u32 | (wrap as u32) << 15
}

/// The bits of an opaque value that count laps.
pub(super) const LAPS: u32 = 0xffff_0000;
/// The bits of an opaque value that are the index.
pub(super) const INDEX: u32 = 0xffff;

/// The bits of an opaque value to compare: all if `laps` is [`LAPS`], none if it is zero.
pub(super) const fn all_if_laps(laps: u32) -> u32 {
    laps | laps >> 16
}

/// The position after a reset: index zero, in an even lap that no token has.
pub(super) const fn after_reset(position: u64) -> u64 {
    (position | 0x1_ffff).wrapping_add(1)
}

macro_rules! token {
    ($name:ident, $field:ident) => {
        impl<B> Clone for $name<B> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<B> Copy for $name<B> {}

        impl<B> PartialEq for $name<B> {
            fn eq(&self, other: &Self) -> bool {
                self.$field == other.$field
            }
        }

        impl<B> Eq for $name<B> {}

        impl<B> fmt::Debug for $name<B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.$field)
            }
        }
    };
}

token!(Opaque, value);
token!(Token, position);

#[cfg(test)]
#[path = "token_test.rs"]
mod tests;
