//! Positions on a packed ring, which include the wrap counter (virtio 1.3, 2.8.1 and 2.8.8).
//!
//! It is pure arithmetic. A position has laps in bits 63:16 and a slot in bits 15:0. The wrap counter
//! starts at 1 and flips with every lap, so it is the inverse of the laps' lowest bit: it is not stored
//! apart, and so always agrees with the slot.

use crate::virtqueue::descriptor::{AVAIL, USED};

/// A position on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub(super) u64);

impl Position {
    /// Slot 0, wrap counter 1.
    pub(super) const START: Self = Self(0);

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub(super) const fn slot(self) -> u16 {
        self.0 as u16
    }

    /// The wrap counter.
    #[inline]
    pub(super) const fn wrap(self) -> bool {
        self.0 >> 16 & 1 == 0
    }

    /// The position `count` slots later; neither `count` nor the slot is more than `size`.
    #[inline]
    pub(super) const fn advance(self, count: u16, size: u16) -> Self {
        // The sum of slot and count is at most 65,535, so it does not carry into the laps.
        let next = self.0 + count as u64;
        if next & 0xffff >= size as u64 {
            return Self::next_lap(next, size);
        }
        Self(next)
    }

    /// Corrects a position beyond the last slot. Cold, so that the usual case is a branch that is not taken.
    #[cold]
    #[inline(never)]
    const fn next_lap(next: u64, size: u16) -> Self {
        Self(next + (0x1_0000 - size as u64))
    }

    /// How many slots `self` is after `older`.
    pub(super) const fn since(self, older: Self, size: u16) -> u64 {
        let laps = (self.0 >> 16) - (older.0 >> 16);
        laps * size as u64 + self.slot() as u64 - older.slot() as u64
    }

    /// The position `count` slots earlier, at the earliest the start.
    pub(super) const fn back(self, count: u32, size: u16) -> Self {
        let slots = (self.0 >> 16) * size as u64 + self.slot() as u64;
        let slots = slots.saturating_sub(count as u64);
        let (lap, slot) = (slots / size as u64, slots % size as u64);
        Self(lap << 16 | slot)
    }

    /// A position of this slot and wrap counter, with more than 2^16 slots before it.
    pub(super) const fn of_off_wrap(off_wrap: u16) -> Self {
        let lap = (1 << 17) + (off_wrap >> 15 == 0) as u64;
        Self(lap << 16 | (off_wrap & 0x7fff) as u64)
    }

    /// Slot and wrap counter in the format of event suppression structures.
    #[inline]
    pub(super) const fn off_wrap(self) -> u16 {
        self.slot() | (self.wrap() as u16) << 15
    }

    /// The flags of a descriptor that the driver makes available here.
    #[inline]
    pub(super) const fn available(self) -> u16 {
        if self.wrap() { AVAIL } else { USED }
    }

    /// The flags of a descriptor that the device marks used here.
    #[inline]
    pub(super) const fn used(self) -> u16 {
        if self.wrap() { AVAIL | USED } else { 0 }
    }

    /// Whether `flags` mean that the descriptor at this position is available.
    #[inline]
    pub(super) const fn is_available(self, flags: u16) -> bool {
        flags & (AVAIL | USED) == self.available()
    }

    /// Whether `flags` mean that the descriptor at this position is used.
    #[inline]
    pub(super) const fn is_used(self, flags: u16) -> bool {
        flags & (AVAIL | USED) == self.used()
    }

    /// Whether one of the last `steps` slots before this position is that of the event `off_wrap`.
    ///
    /// An event with the other wrap counter belongs to the previous lap: no side asks for an event more than
    /// one lap away.
    #[inline]
    pub(super) fn passed(self, off_wrap: u16, steps: u64, size: u16) -> bool {
        let (event, wrap) = (off_wrap & 0x7fff, off_wrap >> 15 != 0);
        let lap = if wrap == self.wrap() { 0 } else { size };
        let back = i32::from(self.slot()) + i32::from(lap) - i32::from(event);
        u64::try_from(back).is_ok_and(|back| (1..=steps).contains(&back))
    }
}

#[cfg(test)]
#[path = "position_test.rs"]
mod tests;
