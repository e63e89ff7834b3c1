//! Polls a queue for used buffers, from any thread and without a lock, and defines the tokens that a poller keeps.
//!
//! The driver side counts what it has consumed in a *position*: laps in bits 62:16, an index in bits 15:0. On a split
//! ring the index is the ring's own 16-bit index, and a lap is an overflow of that index, so a position is simply a
//! count of buffers. On a packed ring the index is a slot, and a lap is one turn of the ring; the lowest bit of the
//! laps determines the wrap counter (see [`super::packed`]). An [`Opaque`] has at most 16 bits of laps, a [`Token`] all
//! 47.
//!
//! Two things can be new since a token was made: the driver side has consumed a buffer, which its position shows, or
//! the device has used a buffer that is not consumed yet, which the ring shows. [`Progress::is_past`] loads from the
//! ring first, and then the position. If the position is still that of the token, nothing was consumed until then. So
//! at the first load, at most one ring of buffers was used beyond the token, and the ring's short index could not wrap
//! to the same value.
//!
//! No barrier is needed between the two loads. For a split ring's index to wrap, the driver side must have consumed
//! buffers (a store of the position), then made buffers available again (a release), and the device must have seen and
//! used them (a release); a poller that acquires this use sees the position. On a packed ring, a slot no longer shows
//! its use once it is made available again, at any place in a chain. So each descriptor of a chain is stored with
//! release, and the poller acquires the descriptor in the slot. The barrier between asking for a notification and the
//! first poll is in `enable_cb_prepare`.
//!
//! With `VIRTIO_F_IN_ORDER`, one used descriptor of a packed ring covers a batch of buffers (virtio 1.3, 2.8.9), and
//! once the first of them is consumed, the ring does not show that the others wait. So the driver side publishes
//! [`IN_BATCH`] together with its position, in one store: no poller sees one without the other.

use std::fmt;
use std::marker::PhantomData;

use super::brand::Brand;
use super::error::{QueueError, WrapCounterError};
use super::features::Status;
use super::ring::{Ring, Sealed, index};
use super::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What the driver side publishes to pollers. It has its own cache lines, because pollers load it all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct PollState {
    /// How far the driver side has consumed, and [`IN_BATCH`].
    published: AtomicU64,
    /// The position at the last reset.
    base: AtomicU64,
    /// The bits of an opaque value that count laps: all of [`LAPS`] or none.
    laps: AtomicU32,
    broken: AtomicBool,
}

impl PollState {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            published: AtomicU64::new(0),
            base: AtomicU64::new(0),
            laps: AtomicU32::new(0),
            broken: AtomicBool::new(false),
        })
    }

    #[inline]
    fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.published() & !IN_BATCH
    }

    /// Stores the position, with [`IN_BATCH`] if used buffers wait that the ring does not show. Only the driver side
    /// calls this, before it makes any further buffer available.
    #[inline]
    pub(super) fn publish(&self, position: u64) {
        self.published.store(position, Ordering::Relaxed);
    }

    #[inline]
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Moves the position to index zero, in a lap that no old token has, and stops counting wraps.
    pub(super) fn reset(&self) {
        let position = after_reset(self.position());
        self.publish(position);
        self.base.store(position, Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        self.broken.store(false, Ordering::Relaxed);
    }

    /// The position at the last reset, and whether opaque values count wraps.
    pub(super) fn saved(&self) -> (u64, bool) {
        let laps = self.laps.load(Ordering::Relaxed);
        (self.base.load(Ordering::Relaxed), laps != 0)
    }

    /// Continues from the saved state. The driver side publishes the position separately.
    pub(super) fn restore(&self, (base, wrap_counter): (u64, bool), broken: bool) {
        self.base.store(base, Ordering::Relaxed);
        let laps = if wrap_counter { LAPS } else { 0 };
        self.laps.store(laps, Ordering::Relaxed);
        self.broken.store(broken, Ordering::Relaxed);
    }

    pub(super) fn use_wrap_counter(
        &self,
        status: Status,
        broken: Option<QueueError>,
    ) -> Result<(), WrapCounterError> {
        if let Some(error) = broken {
            return Err(WrapCounterError::Broken(error));
        }
        if status == Status::RESET || status.has(Status::DRIVER_OK) {
            return Err(WrapCounterError::Status { status: status.0 });
        }
        self.laps.store(LAPS, Ordering::Relaxed);
        Ok(())
    }

    /// The opaque value of a position, with its wraps.
    #[inline]
    fn opaque<R: Ring>(&self, position: u64) -> u32 {
        let base = self.base.load(Ordering::Relaxed);
        R::opaque(position.wrapping_sub(base))
    }

    /// How many buffers are used and not consumed; the highest number if there are some but their number is unknown.
    pub(super) fn waiting<R: Ring>(&self, ring: &R) -> u16 {
        let published = self.published();
        if published & IN_BATCH != 0 {
            return u16::MAX;
        }
        ring.used_since(index(self.opaque::<R>(published)))
    }
}

/// A record of the driver side's position: an [`Opaque`] or a [`Token`], and no other type.
pub trait Progress<B: Brand>: Copy + Sealed {
    /// Records the driver side's current position.
    #[doc(hidden)]
    fn now<R: Ring>(state: &PollState) -> Self;

    /// Whether anything was used or consumed since the token was made. False if the queue is broken.
    #[doc(hidden)]
    fn is_past<R: Ring>(self, state: &PollState, ring: &R) -> bool;
}

impl<B> Sealed for Opaque<B> {}

impl<B: Brand> Progress<B> for Opaque<B> {
    fn now<R: Ring>(state: &PollState) -> Self {
        let laps = state.laps.load(Ordering::Relaxed);
        Self::new(state.opaque::<R>(state.position()) & (laps | INDEX))
    }

    #[inline]
    fn is_past<R: Ring>(self, state: &PollState, ring: &R) -> bool {
        if state.is_broken() {
            return false;
        }
        // The order matters: see the module's documentation.
        ring.used_since(index(self.value)) != 0 || {
            let published = state.published();
            // Without branches, so that counting wraps costs nothing.
            let care = all_if_laps(state.laps.load(Ordering::Relaxed));
            let now = state.opaque::<R>(published & !IN_BATCH);
            ((now ^ self.value) & care != 0) | (published & IN_BATCH != 0)
        }
    }
}

impl<B> Sealed for Token<B> {}

impl<B: Brand> Progress<B> for Token<B> {
    fn now<R: Ring>(state: &PollState) -> Self {
        Self::new(state.position())
    }

    #[inline]
    fn is_past<R: Ring>(self, state: &PollState, ring: &R) -> bool {
        if state.is_broken() {
            return false;
        }
        // No token has the flag IN_BATCH, so a batch counts as a difference.
        let index = index(state.opaque::<R>(self.position));
        ring.used_since(index) != 0 || state.published() != self.position
    }
}

/// Polls a queue that another thread owns; clones poll the same queue.
pub struct QueuePoller<R, B> {
    ring: R,
    state: Arc<PollState>,
    brand: PhantomData<fn() -> B>,
}

impl<R: Ring, B: Brand> QueuePoller<R, B> {
    pub(super) fn new(ring: R, state: Arc<PollState>) -> Self {
        let brand = PhantomData;
        Self { ring, state, brand }
    }

    /// A token for the current position of the queue's owner.
    pub fn token(&self) -> Token<B> {
        Token::now::<R>(&self.state)
    }

    /// See [`Driver::poll`](super::Driver::poll).
    #[inline]
    pub fn poll<P: Progress<B>>(&self, progress: P) -> bool {
        progress.is_past(&self.state, &self.ring)
    }
}

impl<R: Clone, B> Clone for QueuePoller<R, B> {
    fn clone(&self) -> Self {
        Self {
            ring: self.ring.clone(),
            state: Arc::clone(&self.state),
            brand: PhantomData,
        }
    }
}

impl<R, B> fmt::Debug for QueuePoller<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("QueuePoller");
        debug.field("position", &self.state.position());
        debug.field("broken", &self.state.is_broken());
        debug.finish_non_exhaustive()
    }
}

/// A 32-bit token: index in bits 15:0; laps in bits 31:16, zero unless the queue counts wraps.
///
/// Without wraps, a poll misses used buffers if the index wraps to the same value between two polls: on a split ring
/// after exactly 65,536 buffers; on a packed ring if the slot was used and made available again, or was consumed late
/// in an in-order batch. With wraps, it misses them after 2^16 laps: 2^32 buffers on a split ring.
pub struct Opaque<B> {
    value: u32,
    brand: PhantomData<fn() -> B>,
}

/// A 64-bit token: the whole position. It wraps only after 2^47 laps.
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

    /// The position: laps in bits 62:16, index in bits 15:0.
    pub const fn position(self) -> u64 {
        self.position
    }
}

/// The bit of the published value that is set while the driver side is inside a batch whose remaining buffers the ring
/// does not show. No position has this bit.
pub(super) const IN_BATCH: u64 = 1 << 63;
/// The bits of an opaque value that count laps.
const LAPS: u32 = 0xffff_0000;
/// The bits of an opaque value that are the index.
const INDEX: u32 = 0xffff;

/// The bits of an opaque value to compare: all bits if `laps` is [`LAPS`], and none if it is zero.
const fn all_if_laps(laps: u32) -> u32 {
    laps | laps >> 16
}

/// The position after a reset: index zero, in an even lap of which no token was made.
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
#[path = "poll_test.rs"]
mod tests;
