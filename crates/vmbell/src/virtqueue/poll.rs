//! Polls a queue for used buffers, from any thread and without a lock.
//!
//! Two things can be new since a token was made: the driver side has consumed, which its position
//! shows, or the device has used a buffer that is not consumed yet, which the ring shows. [`State::poll`]
//! loads from the ring first and the position after that. If the position is still the token's, nothing was
//! consumed until then, so at the first load at most one ring of buffers was used beyond the token,
//! and the ring's short index could not wrap to the same value.
//!
//! No barrier is needed between the two loads. For a split ring's index to wrap, the driver side must
//! have consumed (a store of the position), then made buffers available again (a release), and the device must
//! have seen and used them (a release); the poller that acquires this use sees the position. On a
//! packed ring, making the slot available again hides the use, at whichever place of a chain the slot is, so
//! each descriptor of a chain is stored with release; the poller acquires the one in the slot.
//! The barrier between asking for a notification and the first poll is in `enable_cb_prepare`.

use std::{fmt, marker::PhantomData};

use super::{
    Brand, Opaque, QueueError, Status, Token, WrapCounterError,
    sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering},
    token,
};

/// What a poller needs of a ring.
pub trait PolledRing {
    /// The 32-bit form of a position since the last reset.
    #[doc(hidden)]
    fn opaque(position: u64) -> u32;

    /// Whether the device has used the buffer at an index, the low half of an opaque value. The answer
    /// cannot tell laps apart. Acquires what the device wrote.
    #[doc(hidden)]
    fn is_used(&self, index: u16) -> bool;
}

/// What the driver side publishes to pollers. It has cache lines of its own, because pollers load it
/// continuously.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct State {
    /// How far the driver side has consumed.
    position: AtomicU64,
    /// The position at the last reset.
    base: AtomicU64,
    /// The bits of an opaque value that count laps: all of [`token::LAPS`] or none.
    laps: AtomicU32,
    broken: AtomicBool,
}

impl State {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            position: AtomicU64::new(0),
            base: AtomicU64::new(0),
            laps: AtomicU32::new(0),
            broken: AtomicBool::new(false),
        })
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Stores the position. Only the driver side does, before it makes any further buffer available.
    #[inline]
    pub(super) fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Moves the position to index zero in a lap that no old token has, and stops counting wraps.
    pub(super) fn reset(&self) {
        let position = token::after_reset(self.position());
        self.set_position(position);
        self.base.store(position, Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        self.broken.store(false, Ordering::Relaxed);
    }

    /// The position at the last reset, and whether opaque values count wraps.
    pub(super) fn saved(&self) -> (u64, bool) {
        let laps = self.laps.load(Ordering::Relaxed);
        (self.base.load(Ordering::Relaxed), laps != 0)
    }

    pub(super) fn restore(&self, position: u64, (base, wrap_counter): (u64, bool), broken: bool) {
        self.set_position(position);
        self.base.store(base, Ordering::Relaxed);
        let laps = if wrap_counter { token::LAPS } else { 0 };
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
        self.laps.store(token::LAPS, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn opaque<R: PolledRing, B: Brand>(&self) -> Opaque<B> {
        let laps = self.laps.load(Ordering::Relaxed);
        Opaque::new(self.now::<R>() & (laps | token::INDEX))
    }

    pub(super) fn token<B: Brand>(&self) -> Token<B> {
        Token::new(self.position())
    }

    /// The opaque value of the current position, with wraps.
    #[inline]
    fn now<R: PolledRing>(&self) -> u32 {
        let base = self.base.load(Ordering::Relaxed);
        R::opaque(self.position().wrapping_sub(base))
    }

    #[inline]
    pub(super) fn poll<R: PolledRing, B: Brand>(&self, ring: &R, opaque: Opaque<B>) -> bool {
        if self.is_broken() {
            return false;
        }
        let value = opaque.value();
        // The order is needed: see the module's comment.
        ring.is_used(token::index(value)) || {
            // Without branches, so that counting wraps costs nothing.
            let care = token::all_if_laps(self.laps.load(Ordering::Relaxed));
            (self.now::<R>() ^ value) & care != 0
        }
    }

    #[inline]
    pub(super) fn poll64<R: PolledRing, B: Brand>(&self, ring: &R, token: Token<B>) -> bool {
        if self.is_broken() {
            return false;
        }
        let base = self.base.load(Ordering::Relaxed);
        let opaque = R::opaque(token.position().wrapping_sub(base));
        ring.is_used(token::index(opaque)) || self.position() != token.position()
    }
}

/// Polls a queue that another thread owns; clones poll the same queue.
pub struct QueuePoller<R, B> {
    ring: R,
    state: Arc<State>,
    brand: PhantomData<fn() -> B>,
}

impl<R: PolledRing, B: Brand> QueuePoller<R, B> {
    pub(super) fn new(ring: R, state: Arc<State>) -> Self {
        let brand = PhantomData;
        Self { ring, state, brand }
    }

    /// A token of how far the queue's owner has consumed now.
    pub fn token(&self) -> Token<B> {
        self.state.token()
    }

    /// As [`DriverQueue::poll`](super::DriverQueue::poll).
    #[inline]
    pub fn poll(&self, opaque: Opaque<B>) -> bool {
        self.state.poll(&self.ring, opaque)
    }

    /// As [`DriverQueue::poll64`](super::DriverQueue::poll64).
    #[inline]
    pub fn poll64(&self, token: Token<B>) -> bool {
        self.state.poll64(&self.ring, token)
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
        debug.field("state", &self.state).finish_non_exhaustive()
    }
}
