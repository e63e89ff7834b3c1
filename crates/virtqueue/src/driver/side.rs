//! The differences between the two kinds of ring for a driver side.

use super::Driver;
use crate::memory::RingMemory;
use crate::ring::{Ring, Sealed};
use crate::slots::Slots;
use crate::{Brand, Buffer, QueueError, RingKind, Used};

/// How far a side is.
#[derive(Debug, Default)]
pub struct Indices {
    /// The index of the next buffer to make available, which follows from the position and what is in flight.
    pub(crate) available: u16,
    pub(crate) unkicked: u32,
    pub(crate) position: u64,
    /// Buffers (split) or slots (packed).
    pub(crate) in_flight: u16,
    pub(crate) used_seen: u16,
    pub(crate) batch: Option<(u16, u32)>,
    /// Whether the queue is broken.
    pub(crate) broken: bool,
}

/// The part of a driver side that is specific to one kind of ring: that of [`SplitDriver`](crate::SplitDriver) or
/// [`PackedDriver`](crate::PackedDriver), and no other type.
///
/// A buffer becomes visible to the device as a whole: a device that sees a part of it sees all of it.
pub trait Side: Sized + Sealed {
    /// The memory that the ring is in.
    type Memory: RingMemory;

    /// The ring.
    type Ring: Ring<Memory = Self::Memory>;

    #[doc(hidden)]
    const KIND: RingKind;

    #[doc(hidden)]
    /// Whether the descriptors of an indirect table name their successors.
    const LINKED: bool;

    #[doc(hidden)]
    /// Whether a new queue's notifications are enabled by event index, if that was negotiated.
    const ARMED_AT_START: bool;

    #[doc(hidden)]
    /// Whether the ring does not show the rest of an in-order batch of which some buffers were consumed.
    const HIDES_BATCH: bool;

    #[doc(hidden)]
    fn ring(&self) -> &Self::Ring;

    #[doc(hidden)]
    /// Makes a buffer of one descriptor available.
    fn offer(&mut self, head: u16, buffer: Buffer, flags: u16);

    #[doc(hidden)]
    /// Makes a buffer of `needed` descriptors available, and returns the last entry that it takes.
    fn offer_chain<T>(
        &mut self,
        slots: &Slots<T>,
        head: u16,
        pieces: (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> u16;

    #[doc(hidden)]
    /// Whether the device wants a notification of the buffers made available since the last call.
    fn kick_prepare(&mut self, event_idx: bool) -> bool;

    #[doc(hidden)]
    /// Takes back the next used buffer.
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError>;

    #[doc(hidden)]
    /// Enables a notification of the buffer (split) or slot (packed) that is `after` further ones ahead of the
    /// position, or without event indices of all. Disables notifications if `None`.
    fn set_event(&self, event_idx: bool, after: Option<u16>);

    #[doc(hidden)]
    /// How far the side is.
    fn save(&self) -> Indices;

    #[doc(hidden)]
    /// Continues from there: the values were checked.
    fn resume(&mut self, indices: &Indices);
}
