//! The differences between the two kinds of ring, for a driver side.

use super::Driver;
use crate::brand::Brand;
use crate::buffer::{Buffer, Used};
use crate::error::QueueError;
use crate::memory::RingMemory;
use crate::ring::{Ring, Sealed};
use crate::save::RingKind;
use crate::slots::Slots;

/// How far a driver side is.
#[derive(Debug, Default)]
pub struct Indices {
    /// The index of the next buffer to make available. It follows from the position and the number in flight.
    pub(crate) available: u16,
    pub(crate) unkicked: u32,
    pub(crate) position: u64,
    /// The number of buffers (split) or slots (packed).
    pub(crate) in_flight: u16,
    pub(crate) used_seen: u16,
    pub(crate) batch: Option<(u16, u32)>,
    /// Whether the queue is broken.
    pub(crate) broken: bool,
}

/// The part of a driver side that is specific to one kind of ring: the part of [`SplitDriver`](crate::SplitDriver) or
/// of [`PackedDriver`](crate::PackedDriver), and no other type.
///
/// A buffer becomes visible to the device as a whole: a device that sees one part of it sees all of it.
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
    /// Whether a new queue has its notifications enabled by event index, if event indices were negotiated.
    const ARMED_AT_START: bool;

    #[doc(hidden)]
    /// Whether a partly consumed in-order batch leaves nothing on the ring that shows its remaining buffers.
    const HIDES_BATCH: bool;

    #[doc(hidden)]
    fn ring(&self) -> &Self::Ring;

    #[doc(hidden)]
    /// Makes a buffer that has one descriptor available.
    fn offer(&mut self, head: u16, buffer: Buffer, flags: u16);

    #[doc(hidden)]
    /// Makes a buffer that has `needed` descriptors available, and returns the last entry that it takes.
    fn offer_chain<T>(
        &mut self,
        slots: &Slots<T>,
        head: u16,
        pieces: (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> u16;

    #[doc(hidden)]
    /// Returns whether the device wants a notification for the buffers made available since the last call.
    fn kick_prepare(&mut self, event_idx: bool) -> bool;

    #[doc(hidden)]
    /// Takes back the next used buffer.
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError>;

    #[doc(hidden)]
    /// Enables a notification of the buffer (split) or slot (packed) `after` places after the position; without
    /// event indices, of every buffer. Disables notifications if `None`.
    fn set_event(&self, event_idx: bool, after: Option<u16>);

    #[doc(hidden)]
    /// Returns how far the side is.
    fn save(&self) -> Indices;

    #[doc(hidden)]
    /// Continues from `indices`, which the caller has checked.
    fn resume(&mut self, indices: &Indices);
}
