//! A packed ring in shared memory, field by field (virtio 1.3, 2.8.13 and 2.8.14).
//!
//! A descriptor is published by a release store of the word that has its flags, and read with an
//! acquire load of the same word. An event suppression structure is also one word, so its position and
//! flags are always read together.

use crate::virtqueue::{
    PackedLayout, PolledRing, SetupError,
    descriptor::{self, Descriptor},
    memory::{RingMemory, Word, Words},
    sync::{AtomicU32, Ordering},
    token,
};

use super::position::Position;

/// The contents of an event suppression structure (virtio 1.3, 2.8.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// All notifications are enabled.
    Enable,
    /// All notifications are disabled.
    Disable,
    /// The notification of one descriptor is enabled; its slot and wrap counter.
    Descriptor(u16),
}

impl Event {
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

    /// Whether a notification is enabled of one of the last `steps` slots before `position`.
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

    /// Initializes the ring, before the device may access it.
    pub(super) fn clear(&self) {
        for descriptor in self.descriptors.all() {
            descriptor.store(0, 0, Ordering::Release);
        }
        self.set_driver_event(Event::Enable);
        self.set_device_event(Event::Enable);
    }

    pub(super) fn memory(&self) -> &M {
        self.descriptors.memory()
    }

    pub(super) fn driver_event(&self) -> Event {
        Event::of(u32::from_le(self.driver_event.load(Ordering::Relaxed)))
    }

    pub(super) fn set_driver_event(&self, event: Event) {
        let word = event.word().to_le();
        self.driver_event.store(word, Ordering::Relaxed);
    }

    pub(super) fn device_event(&self) -> Event {
        Event::of(u32::from_le(self.device_event.load(Ordering::Relaxed)))
    }

    pub(super) fn set_device_event(&self, event: Event) {
        let word = event.word().to_le();
        self.device_event.store(word, Ordering::Relaxed);
    }
}

impl<M> PackedRing<M> {
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// The descriptor at a position, which belongs to this ring.
    #[inline]
    pub(super) fn at(&self, position: Position) -> &Descriptor {
        &self.descriptors.all()[usize::from(position.slot())]
    }

    /// The second word of the descriptor at a position, loaded with acquire.
    #[inline]
    pub(super) fn look(&self, position: Position) -> u64 {
        self.at(position).load_rest(Ordering::Acquire)
    }
}

impl<M: RingMemory> PolledRing for PackedRing<M> {
    #[inline]
    fn opaque(position: u64) -> u32 {
        token::packed_opaque(position)
    }

    #[inline]
    fn is_used(&self, index: u16) -> bool {
        let slot = u64::from(index & 0x7fff);
        let position = Position(slot | u64::from(index >> 15 == 0) << 16);
        let Some(descriptor) = self.descriptors.all().get(usize::from(position.slot())) else {
            return false;
        };
        let rest = descriptor.load_rest(Ordering::Acquire);
        position.is_used(descriptor::packed::flags(rest))
    }
}
