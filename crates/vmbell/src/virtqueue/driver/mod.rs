//! The driver side of a queue, owned by one thread at a time: the part that is the same for both kinds of ring.
//!
//! A [`Side`] is the part that is specific to one kind: its indices, and how it writes and reads the ring. Adding
//! buffers is in `add`, saving and restoring in `save`; set-up, event suppression, polling and reset are here.

mod add;
mod save;
mod side;

use super::{
    Brand, Buffer, DriverControl, DriverQueue, DriverState, Features, NotAdded, Opaque, QueueError,
    QueuePoller, RestoreError, SetupError, Status, Token, Used, WrapCounterError,
    indirect::Tables,
    poll::State,
    slots::Slots,
    sync::{Arc, Ordering, fence},
};

pub use side::{Indices, Side};

/// Makes buffers available and takes used buffers back: a [`SplitDriver`](super::SplitDriver) or a
/// [`PackedDriver`](super::PackedDriver).
///
/// `T` is the driver's data of each buffer; `B` is the brand that distinguishes this queue's tokens.
#[derive(Debug)]
pub struct Driver<T, S: Side, B> {
    pub(super) side: S,
    /// The state of each descriptor (split) or buffer id (packed).
    pub(super) slots: Slots<T>,
    /// How many descriptors are free; 0 if the queue is broken.
    pub(super) free: u16,
    /// Whether notifications are enabled by event index, so that consuming must move the event.
    pub(super) armed: bool,
    pub(super) features: Features,
    tables: Option<Tables<S::Memory>>,
    pub(super) broken: Option<QueueError>,
    pub(super) state: Arc<State>,
    brand: B,
}

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// A driver side of a ring that was just initialized, or one to be restored.
    pub(super) fn over(side: S, features: Features, brand: B) -> Self {
        let size = side.size();
        Self {
            side,
            slots: Slots::new(size),
            free: size,
            armed: S::arms_at_start(features),
            features,
            tables: None,
            broken: None,
            state: State::new(),
            brand,
        }
    }

    /// Puts buffers of 2 to `entries` pieces into indirect tables, one descriptor each.
    ///
    /// There is a table for each descriptor of the ring: `size * entries * 16` bytes from `addr` on.
    ///
    /// # Errors
    ///
    /// If the feature was not negotiated, or the tables are misaligned or outside of memory.
    pub fn with_indirect_tables(mut self, addr: u64, entries: u16) -> Result<Self, SetupError> {
        let (memory, size) = (self.side.memory(), self.side.size());
        let tables = Tables::resolve(memory, addr, size, entries, self.features)?;
        self.tables = Some(tables);
        Ok(self)
    }

    /// The ring, for a device side in this process.
    pub fn ring(&self) -> &S::Ring {
        self.side.ring()
    }

    /// The brand, which the queue owns.
    pub fn brand(&self) -> &B {
        &self.brand
    }

    /// A [`QueuePoller`] for another thread.
    pub fn poller(&self) -> QueuePoller<S::Ring, B> {
        QueuePoller::new(self.side.ring().clone(), Arc::clone(&self.state))
    }

    /// Marks the queue broken.
    #[cold]
    pub(super) fn break_with(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        self.state.set_broken();
        // Makes `add` take its slow path, which returns the error.
        self.free = 0;
        error
    }
}

impl<T, S: Side, B: Brand> DriverQueue for Driver<T, S, B> {
    type Data = T;
    type Brand = B;

    #[inline]
    fn add(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        self.add_buffer(readable, writable, data)
    }

    #[inline]
    fn kick_prepare(&mut self) -> bool {
        // Between the store that made buffers available and the load of the device's event suppression.
        fence(Ordering::SeqCst);
        self.broken.is_none() && self.side.kick_prepare(self.features.event_idx)
    }

    #[inline]
    fn get_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        S::next_used(self)
    }

    fn disable_cb(&mut self) {
        self.armed = false;
        self.side.disable_cb(self.features);
    }

    fn enable_cb_prepare(&mut self) -> Opaque<B> {
        S::ask_next(self);
        self.state.opaque::<S::Ring, B>()
    }

    fn enable_cb_prepare64(&mut self) -> Token<B> {
        S::ask_next(self);
        self.state.token()
    }

    #[inline]
    fn poll(&self, opaque: Opaque<B>) -> bool {
        self.state.poll(self.side.ring(), opaque)
    }

    #[inline]
    fn poll64(&self, token: Token<B>) -> bool {
        self.state.poll64(self.side.ring(), token)
    }

    fn enable_cb_delayed(&mut self) -> bool {
        // The notification is enabled even if the queue is broken, so that the device does not stay silent.
        let waits = S::ask_late(self);
        waits || self.broken.is_some()
    }
}

impl<T, S: Side, B: Brand> DriverControl for Driver<T, S, B> {
    type Data = T;

    fn use_wrap_counter(&mut self, status: Status) -> Result<(), WrapCounterError> {
        self.state.use_wrap_counter(status, self.broken)
    }

    fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    fn free(&self) -> u16 {
        self.free
    }

    fn detach_unused(&mut self) -> Option<T> {
        self.slots.detach()
    }

    fn reset(&mut self) {
        let size = self.side.size();
        self.state.reset();
        self.side.restart(self.state.position());
        self.slots = Slots::new(size);
        self.free = size;
        self.armed = S::arms_at_start(self.features);
        self.broken = None;
    }

    fn save(&self) -> Result<DriverState, RestoreError> {
        self.save_state()
    }

    fn restore(
        &mut self,
        state: &DriverState,
        data: impl FnMut(u16) -> Option<T>,
    ) -> Result<(), RestoreError> {
        self.restore_state(state, data)
    }
}

#[cfg(all(test, not(loom)))]
impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Advances the positions by an even number of laps, as if their buffers had been used: 65,536 a lap on a split
    /// ring.
    pub(in crate::virtqueue) fn skip_laps(&mut self, laps: u64) {
        let position = self.side.skip(laps << 16);
        self.state.set_position(position);
    }
}
