//! What the two kinds of ring differ in for a driver.

use super::Driver;
use crate::virtqueue::{
    Brand, Buffer, Features, PolledRing, QueueError, Used, memory::RingMemory, slots::Slots,
};

/// A driver's place on a ring of one kind.
///
/// What is offered or published is visible to the device as a whole: whoever sees a part of a buffer
/// sees all of it.
#[doc(hidden)]
pub trait Side: Sized {
    type Memory: RingMemory;
    type Ring: PolledRing + Clone;
    /// What `publish` must know of what was written.
    type Written: Copy;

    /// Whether the descriptors of an indirect table name each other.
    const LINKED: bool;

    fn ring(&self) -> &Self::Ring;
    fn memory(&self) -> &Self::Memory;
    fn size(&self) -> u16;

    /// Whether a fresh queue's notifications are asked for by position.
    fn arms_at_start(features: Features) -> bool;

    /// Makes a buffer of one descriptor available.
    fn offer(&mut self, head: u16, buffer: Buffer, flags: u16);

    /// Writes a buffer of `needed` descriptors; gives the last of the slots that it takes.
    fn write_chain<T>(
        &self,
        slots: &Slots<T>,
        head: u16,
        pieces: (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> (u16, Self::Written);

    /// Makes what was written available.
    fn publish(&mut self, written: Self::Written);

    /// Whether the device wants to know of what was published since the last call.
    fn kick_prepare(&mut self, event_idx: bool) -> bool;

    /// Takes back the next used buffer.
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError>;

    /// Asks for no notifications.
    fn disable_cb(&self, features: Features);

    /// Asks for a notification of the next used buffer.
    fn ask_next<T, B: Brand>(driver: &mut Driver<T, Self, B>);

    /// Asks for one after three quarters of what is in flight; whether there is less than that.
    fn ask_late<T, B: Brand>(driver: &mut Driver<T, Self, B>) -> bool;

    /// Empties the ring and begins again at `position`.
    fn restart(&mut self, position: u64);

    /// Moves on by whole laps, and gives the new position.
    #[cfg(all(test, not(loom)))]
    fn skip(&mut self, by: u64) -> u64;
}
