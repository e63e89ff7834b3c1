//! A packed ring in shared memory, field by field (virtio 1.3, 2.8.13 and 2.8.14), and positions on the ring, which
//! include the wrap counter (2.8.1 and 2.8.8).
//!
//! A descriptor is published by a release store of the word that has its flags, and read with an acquire load of the
//! same word. An event suppression structure is also a single word, so its position and flags are always read together.
//!
//! A [`Position`] has laps in bits 62:16 and a slot in bits 15:0. The wrap counter starts at 1 and flips with every
//! lap, so it is the inverse of the laps' lowest bit. It is not stored separately, so it always agrees with the slot.

use super::PackedLayout;
use crate::descriptor::{self, AVAIL, Descriptor, USED};
use crate::error::SetupError;
use crate::hint::unlikely;
use crate::memory::{Cursor, RingMemory, Word, Words};
use crate::ring::{Ring, Sealed, packed_opaque};
use crate::sync::{AtomicU32, Ordering};

/// The contents of an event suppression structure (virtio 1.3, 2.8.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventSuppression {
    /// All notifications are enabled.
    Enable,
    /// All notifications are disabled.
    Disable,
    /// The notification of one descriptor is enabled. The value is its slot and wrap counter.
    Descriptor(u16),
}

impl EventSuppression {
    const DISABLE: u32 = 1;
    const DESCRIPTOR: u32 = 2;

    fn word(self) -> u32 {
        match self {
            Self::Enable => 0,
            Self::Disable => Self::DISABLE << 16,
            Self::Descriptor(off_wrap) => Self::DESCRIPTOR << 16 | u32::from(off_wrap),
        }
    }

    /// Decodes the word. The reserved value counts as [`Enable`](Self::Enable), so that no notification is lost.
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    fn of(word: u32) -> Self {
        match word >> 16 & 3 {
            Self::DISABLE => Self::Disable,
            Self::DESCRIPTOR => Self::Descriptor(word as u16),
            _ => Self::Enable,
        }
    }

    /// Whether a notification is enabled for one of the last `steps` slots before `position`.
    #[inline]
    pub(super) fn wants(self, position: Position, steps: u64, size: u16) -> bool {
        match self {
            Self::Enable => true,
            Self::Disable => false,
            Self::Descriptor(off_wrap) => position.passed(off_wrap, steps, size),
        }
    }
}

/// The ring in shared memory, for either side.
#[derive(Clone, Debug)]
pub struct PackedRing<M> {
    size: u16,
    descriptors: Words<Descriptor, M>,
    driver_event: Word<AtomicU32, M>,
    device_event: Word<AtomicU32, M>,
}

impl<M: RingMemory> PackedRing<M> {
    pub(super) fn resolve(memory: &M, layout: &PackedLayout) -> Result<Self, SetupError> {
        layout.check()?;
        let align = descriptor::BYTES as u64;
        let count = usize::from(layout.size);
        let ring = Self {
            size: layout.size,
            descriptors: Words::resolve(
                memory,
                "descriptor ring",
                layout.descriptors,
                count,
                align,
            )?,
            driver_event: Word::resolve(memory, "driver event", layout.driver_event)?,
            device_event: Word::resolve(memory, "device event", layout.device_event)?,
        };
        layout.check_overlap()?;
        Ok(ring)
    }

    pub(super) fn driver_event(&self) -> EventSuppression {
        EventSuppression::of(u32::from_le(self.driver_event.load(Ordering::Relaxed)))
    }

    pub(super) fn set_driver_event(&self, event: EventSuppression) {
        let word = event.word().to_le();
        self.driver_event.store(word, Ordering::Relaxed);
    }

    pub(super) fn device_event(&self) -> EventSuppression {
        EventSuppression::of(u32::from_le(self.device_event.load(Ordering::Relaxed)))
    }

    pub(super) fn set_device_event(&self, event: EventSuppression) {
        let word = event.word().to_le();
        self.device_event.store(word, Ordering::Relaxed);
    }
}

impl<M> PackedRing<M> {
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// The descriptor at a position of this ring.
    #[inline]
    pub(super) fn at(&self, position: Position) -> &Descriptor {
        &self.descriptors.all()[usize::from(position.slot())]
    }
}

/// The flags [`AVAIL`] and [`USED`] in a descriptor's second word. Both flip with every lap.
pub(super) const LAP_FLAGS: u64 = descriptor::packed::rest(0, 0, AVAIL | USED);

impl<M: Clone> PackedRing<M> {
    /// A cursor at the start of the ring, whose mark is the [`LAP_FLAGS`] of available descriptors.
    pub(super) fn available(&self) -> Cursor<M> {
        let mark = descriptor::packed::rest(0, 0, Position::START.available());
        Cursor::start(&self.descriptors, mark, LAP_FLAGS)
    }

    /// A cursor at the start of the ring, whose mark is the [`LAP_FLAGS`] of used descriptors.
    pub(super) fn used(&self) -> Cursor<M> {
        let mark = descriptor::packed::rest(0, 0, Position::START.used());
        Cursor::start(&self.descriptors, mark, LAP_FLAGS)
    }
}

/// The second word of the descriptor at a cursor, loaded with acquire, and whether it has the mark.
#[inline]
pub(super) fn look<M>(cursor: &Cursor<M>) -> (u64, bool) {
    let rest = cursor.get().load_rest(Ordering::Acquire);
    (rest, rest & LAP_FLAGS == cursor.mark())
}

impl<M> Sealed for PackedRing<M> {}

impl<M: RingMemory> Ring for PackedRing<M> {
    type Memory = M;

    fn memory(&self) -> &M {
        self.descriptors.memory()
    }

    fn clear(&self) {
        for descriptor in self.descriptors.all() {
            descriptor.store(0, 0, Ordering::Release);
        }
        self.set_driver_event(EventSuppression::Enable);
        self.set_device_event(EventSuppression::Enable);
    }

    #[inline]
    fn opaque(position: u64) -> u32 {
        packed_opaque(position)
    }

    #[inline]
    fn used_since(&self, index: u16) -> u16 {
        let slot = u64::from(index & 0x7fff);
        let position = Position(slot | u64::from(index >> 15 == 0) << 16);
        let Some(descriptor) = self.descriptors.all().get(usize::from(position.slot())) else {
            return 0;
        };
        let rest = descriptor.load_rest(Ordering::Acquire);
        // A buffer of several slots has a single used descriptor, so the slots after the first one show nothing.
        if position.is_used(descriptor::packed::flags(rest)) {
            u16::MAX
        } else {
            0
        }
    }
}

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

    /// The wrap counter at this position.
    #[inline]
    pub(super) const fn wrap(self) -> bool {
        self.0 >> 16 & 1 == 0
    }

    /// The position `count` slots later. Neither `count` nor the slot is above `size`.
    #[inline]
    pub(super) const fn advance(self, count: u16, size: u16) -> Self {
        // The sum of slot and count is at most 65,535, so it does not carry into the laps.
        let next = self.0 + count as u64;
        if next & 0xffff >= size as u64 {
            unlikely();
            return Self(next + (0x1_0000 - size as u64));
        }
        Self(next)
    }

    /// How many slots `self` is after `older`.
    #[inline]
    pub(super) const fn since(self, older: Self, size: u16) -> u64 {
        // Slots of the same lap differ by less than `size`, and slots of different laps differ by more than 0x1_0000 -
        // `size`.
        let apart = self.0 - older.0;
        if apart < size as u64 {
            return apart;
        }
        let laps = (self.0 >> 16) - (older.0 >> 16);
        laps * size as u64 + self.slot() as u64 - older.slot() as u64
    }

    /// The position `count` slots earlier, but not before the start.
    pub(super) const fn back(self, count: u32, size: u16) -> Self {
        let slots = (self.0 >> 16) * size as u64 + self.slot() as u64;
        let slots = slots.saturating_sub(count as u64);
        let (lap, slot) = (slots / size as u64, slots % size as u64);
        Self(lap << 16 | slot)
    }

    /// A position with this slot and wrap counter, and with more than 2^16 slots before it.
    pub(super) const fn of_off_wrap(off_wrap: u16) -> Self {
        let lap = (1 << 17) + (off_wrap >> 15 == 0) as u64;
        Self(lap << 16 | (off_wrap & 0x7fff) as u64)
    }

    /// The slot and wrap counter, in the format of event suppression structures.
    #[inline]
    pub(super) const fn off_wrap(self) -> u16 {
        self.slot() | (self.wrap() as u16) << 15
    }

    /// The position of a cursor.
    #[inline]
    pub(super) fn of<M>(cursor: &Cursor<M>) -> Self {
        Self(cursor.position())
    }

    /// The flags of a descriptor that the driver makes available at this position.
    #[inline]
    pub(super) const fn available(self) -> u16 {
        if self.wrap() { AVAIL } else { USED }
    }

    /// The flags of a descriptor that the device marks used at this position.
    #[inline]
    pub(super) const fn used(self) -> u16 {
        if self.wrap() { AVAIL | USED } else { 0 }
    }

    /// Whether `flags` mean that the descriptor at this position is used.
    #[inline]
    pub(super) const fn is_used(self, flags: u16) -> bool {
        flags & (AVAIL | USED) == self.used()
    }

    /// Whether the slot of the event `off_wrap` is one of the last `steps` slots before this position.
    ///
    /// An event with the opposite wrap counter belongs to the previous lap: no side asks for an event more than one lap
    /// away.
    #[inline]
    fn passed(self, off_wrap: u16, steps: u64, size: u16) -> bool {
        let (event, wrap) = (off_wrap & 0x7fff, off_wrap >> 15 != 0);
        let lap = if wrap == self.wrap() { 0 } else { size };
        let back = i32::from(self.slot()) + i32::from(lap) - i32::from(event);
        u64::try_from(back).is_ok_and(|back| (1..=steps).contains(&back))
    }
}

#[cfg(test)]
#[path = "ring_test.rs"]
mod tests;
