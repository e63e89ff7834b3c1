//! The differences between the two kinds of ring for a driver side.

use super::Driver;
use crate::virtqueue::{
    Brand, Buffer, DriverState, Features, PolledRing, QueueError, RingKind, Used,
    memory::RingMemory, slots::Slots,
};

/// What a saved state has of a side's own.
#[derive(Debug)]
pub struct Indices {
    pub(in crate::virtqueue) available: u16,
    pub(in crate::virtqueue) unkicked: u32,
    pub(in crate::virtqueue) position: u64,
    pub(in crate::virtqueue) used_seen: u16,
    pub(in crate::virtqueue) batch: Option<(u16, u32)>,
}

/// The part of the driver side that is specific to one kind of ring.
///
/// A buffer becomes visible to the device as a whole: a device that sees a part of it sees all of it.
#[doc(hidden)]
pub trait Side: Sized {
    type Memory: RingMemory;
    type Ring: PolledRing + Clone;
    /// What `write_chain` returns to be passed to `publish`.
    type Written: Copy;

    const KIND: RingKind;

    /// Whether the descriptors of an indirect table name their successors.
    const LINKED: bool;

    fn ring(&self) -> &Self::Ring;
    fn memory(&self) -> &Self::Memory;
    fn size(&self) -> u16;

    /// Whether a new queue's notifications are enabled by event index.
    fn arms_at_start(features: Features) -> bool;

    /// Makes a buffer of one descriptor available.
    fn offer(&mut self, head: u16, buffer: Buffer, flags: u16);

    /// Writes a buffer of `needed` descriptors, without publishing it; returns also the last entry that it takes.
    fn write_chain<T>(
        &self,
        slots: &Slots<T>,
        head: u16,
        pieces: (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> (u16, Self::Written);

    /// Makes a buffer that `write_chain` has written available.
    fn publish(&mut self, written: Self::Written);

    /// Whether the device wants a notification of the buffers made available since the last call.
    fn kick_prepare(&mut self, event_idx: bool) -> bool;

    /// Takes back the next used buffer.
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError>;

    /// Disables used buffer notifications.
    fn disable_cb(&self, features: Features);

    /// Enables a notification of the next used buffer.
    fn ask_next<T, B: Brand>(driver: &mut Driver<T, Self, B>);

    /// Enables a notification after three quarters of the buffers in flight; returns whether no more than that are
    /// used already.
    fn ask_late<T, B: Brand>(driver: &mut Driver<T, Self, B>) -> bool;

    /// Initializes the ring again and continues at `position`.
    fn restart(&mut self, position: u64);

    /// How far the side is.
    fn save(&self) -> Indices;

    /// Goes on from a state that was checked, with this number of buffers (split) or slots (packed) in flight.
    fn resume(&mut self, state: &DriverState, in_flight: u16);

    /// Advances the position by whole laps, and returns the new one.
    #[cfg(all(test, not(loom)))]
    fn skip(&mut self, by: u64) -> u64;
}
