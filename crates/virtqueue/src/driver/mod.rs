//! The driver side of a queue, owned by one thread at a time: the part that both kinds of ring share.
//!
//! It sets the queue up, makes buffers available (virtio 1.3, 2.7.13 and 2.8.21), suppresses notifications, polls,
//! resets, saves and restores. The part that is specific to one kind of ring is a [`Side`]: its indices, and how it
//! writes and reads the ring.

mod side;

use super::brand::Brand;
use super::buffer::{Buffer, Used};
use super::error::{AddError, NotAdded, QueueError, SetupError, WrapCounterError};
use super::features::{Features, Status};
use super::indirect::Tables;
use super::poll::{IN_BATCH, PollState};
use super::poll::{Progress, QueuePoller, Token};
use super::ring::Ring;
use super::save::{DriverState, RestoreError, STATE_VERSION};
use super::slots::Slots;
use super::sync::{Arc, Ordering, fence};
use crate::descriptor::{INDIRECT, WRITE};
use crate::save::Target;

pub use side::{Indices, Side};

/// Makes buffers available and takes used buffers back: a [`SplitDriver`](super::SplitDriver) or a
/// [`PackedDriver`](super::PackedDriver).
///
/// `T` is the data that the driver keeps for each buffer; `B` is the brand that distinguishes this queue's tokens.
#[derive(Debug)]
pub struct Driver<T, S: Side, B> {
    pub(super) side: S,
    /// The state of each descriptor (split) or buffer id (packed).
    pub(super) slots: Slots<T>,
    /// How many descriptors are free; 0 if the queue is broken.
    pub(super) free: u16,
    /// Whether notifications are enabled by event index; if so, consuming a buffer must move the event.
    pub(super) armed: bool,
    pub(super) features: Features,
    tables: Option<Tables<S::Memory>>,
    pub(super) broken: Option<QueueError>,
    pub(super) state: Arc<PollState>,
    brand: B,
}

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// A driver side of a ring that was just initialized, or that is to be restored.
    pub(super) fn over(side: S, size: u16, features: Features, brand: B) -> Self {
        let armed = S::ARMED_AT_START && features.event_idx;
        Self {
            side,
            slots: Slots::new(size),
            free: size,
            armed,
            features,
            tables: None,
            broken: None,
            state: PollState::new(),
            brand,
        }
    }

    /// Puts buffers of 2 to `entries` pieces into indirect tables, one descriptor each.
    ///
    /// Each descriptor of the ring has a table: `size * entries * 16` bytes from `addr` on.
    ///
    /// # Errors
    ///
    /// If indirect descriptors were not negotiated, or the tables are misaligned or outside of memory.
    pub fn with_indirect_tables(mut self, addr: u64, entries: u16) -> Result<Self, SetupError> {
        let (memory, size) = (self.side.ring().memory(), self.slots.size());
        let tables = Tables::resolve(memory, addr, size, entries, self.features)?;
        self.tables = Some(tables);
        Ok(self)
    }

    /// The ring, for a device side in the same process.
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

    /// Enables a notification of the buffer (split) or slot (packed) `after` places after the next one.
    #[inline]
    pub(super) fn ask(&mut self, after: u16) {
        self.armed = self.features.event_idx;
        self.side.set_event(self.features.event_idx, Some(after));
        // Between the store of the event suppression and the next load of the device's used position. Pairs with the
        // device's fence between its store of that position and its load of the event suppression: one of the two sides
        // sees the other's store.
        fence(Ordering::SeqCst);
    }

    /// Publishes to pollers how far the driver side is, and whether it is inside a batch.
    fn publish(&self, position: u64, in_batch: bool) {
        let in_batch = u64::from(in_batch && S::HIDES_BATCH) * IN_BATCH;
        self.state.publish(position | in_batch);
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

/// The operations on a queue. The methods have the names of Linux's virtqueue functions.
impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Makes a buffer of these pieces available; the device may see it at once.
    ///
    /// # Errors
    ///
    /// If there are too few free descriptors, the pieces can never fit, or the queue is broken. The queue is then
    /// unchanged, and the error holds the data.
    #[inline]
    pub fn add(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        match (readable, writable) {
            ([buffer], []) => self.add_single(*buffer, 0, 0, data),
            ([], [buffer]) => self.add_single(*buffer, WRITE, buffer.len, data),
            _ => self.add_pieces(readable, writable, data),
        }
    }

    /// Returns whether the device wants a notification for the buffers added since the last call.
    #[inline]
    pub fn kick_prepare(&mut self) -> bool {
        // Between the store that made buffers available and the load of the device's event suppression.
        fence(Ordering::SeqCst);
        self.broken.is_none() && self.side.kick_prepare(self.features.event_idx)
    }

    /// Takes back the next buffer that the device has used.
    ///
    /// # Errors
    ///
    /// If the device wrote invalid values; the queue is broken from then on.
    #[inline(always)]
    pub fn get_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        S::next_used(self)
    }

    /// Disables used buffer notifications (driver event suppression). One notification may still come.
    pub fn disable_cb(&mut self) {
        self.armed = false;
        self.side.set_event(self.features.event_idx, None);
    }

    /// Enables a notification of the next used buffer, and returns how far the driver has consumed.
    ///
    /// The caller passes the value to [`poll`](Self::poll), which returns whether a buffer was used before that.
    pub fn enable_cb_prepare<P: Progress<B>>(&mut self) -> P {
        self.ask(0);
        P::now::<S::Ring>(&self.state)
    }

    /// Returns whether anything was used or consumed since `progress` was made. False if the queue is broken.
    ///
    /// With a [`Token`] it never misses a used buffer; with an [`Opaque`](crate::Opaque) without wrap counters it can.
    /// It can return true with nothing left to consume, if the buffers were consumed after the value was made.
    #[inline]
    pub fn poll<P: Progress<B>>(&self, progress: P) -> bool {
        progress.is_past(&self.state, self.side.ring())
    }

    /// Enables a notification of the next used buffer. Returns false if a used buffer is already waiting.
    pub fn enable_cb(&mut self) -> bool {
        let token: Token<_> = self.enable_cb_prepare();
        !self.poll(token)
    }

    /// Enables a notification once three quarters of the buffers in flight are used. Returns false if more than that
    /// are already used, or, on a packed ring, if any buffer is used. Returns true if the queue is broken, so that no
    /// caller retries forever.
    pub fn enable_cb_delayed(&mut self) -> bool {
        let most = u32::from(self.side.save().in_flight) * 3 / 4;
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        // Done even if the queue is broken, so that the device still notifies.
        self.ask(most);
        self.state.waiting(self.side.ring()) <= most || self.broken.is_some()
    }
}

/// Setting up, resetting, saving and restoring.
impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Makes opaque values count wraps, until the next reset.
    ///
    /// # Errors
    ///
    /// If the device `status` says that the device has no driver yet or that its queues are live, or if the queue is
    /// broken.
    pub fn use_wrap_counter(&mut self, status: Status) -> Result<(), WrapCounterError> {
        self.state.use_wrap_counter(status, self.broken)
    }

    /// The error that broke the queue, if it is broken.
    pub fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    /// How many descriptors are free; 0 if the queue is broken.
    pub fn free(&self) -> u16 {
        self.free
    }

    /// The position of the next buffer to make available: the upper half of a notification with
    /// `VIRTIO_F_NOTIFICATION_DATA` (virtio 1.3, 2.9). On a split ring the index; on a packed ring the slot, with the
    /// wrap counter in bit 15.
    pub fn next_avail(&self) -> u16 {
        self.side.save().available
    }

    /// Takes back the data of one of the buffers that the device has not used. Only for a device that is stopped, or
    /// for a queue that is no longer used.
    pub fn detach_unused(&mut self) -> Option<T> {
        self.slots.detach()
    }

    /// Empties the queue and drops what was in flight, after the device was reset.
    ///
    /// Notifications are then on, wrap counters off, and no wraps counted. Older [`Token`]s poll true.
    pub fn reset(&mut self) {
        let size = self.slots.size();
        self.state.reset();
        self.side.ring().clear();
        self.side.resume(&Indices {
            position: self.state.position(),
            ..Indices::default()
        });
        self.slots = Slots::new(size);
        self.free = size;
        self.armed = S::ARMED_AT_START && self.features.event_idx;
        self.broken = None;
    }

    /// The state of this side, without the data of the buffers in flight.
    ///
    /// # Errors
    ///
    /// If the state could not be restored, because [`detach_unused`](Self::detach_unused) has taken data and the queue
    /// was not reset after that.
    pub fn save(&self) -> Result<DriverState, RestoreError> {
        let (target, tables) = (self.target(), self.tables.as_ref().map(Tables::place));
        let indices = self.side.save();
        let (base, wrap_counter) = self.state.saved();
        let (buffers, entries) = self.slots.save(S::KIND);
        let state = DriverState {
            version: STATE_VERSION,
            ring: target.ring,
            size: target.size,
            features: target.features,
            tables,
            available: indices.available,
            unkicked: indices.unkicked,
            position: indices.position,
            base,
            wrap_counter,
            used_seen: indices.used_seen,
            armed: self.armed,
            batch: indices.batch,
            buffers,
            entries,
            broken: self.broken,
        };
        state.check(target, tables)?;
        Ok(state)
    }

    /// Continues from a saved state; buffers that were in flight before are dropped.
    ///
    /// `data` returns the data of the buffer in flight with this id. It is called once for each buffer, in the order of
    /// [`DriverState::buffers`], after the state was checked.
    ///
    /// [`Token`]s and [`Opaque`](crate::Opaque) values from before the save give the same answers as without the save,
    /// because the whole position is part of the state. For values that the saved queue made after the save, `poll` can
    /// return false although a buffer was used since, because the restored queue has other buffers at the same
    /// positions. Give the restored queue a new brand, and the compiler refuses such values. A [`QueuePoller`] of the
    /// saved queue does not poll the restored one.
    ///
    /// # Errors
    ///
    /// If the state does not fit this queue, or `data` returns `None`. The queue is then unchanged.
    pub fn restore(
        &mut self,
        state: &DriverState,
        data: impl FnMut(u16) -> Option<T>,
    ) -> Result<(), RestoreError> {
        let tables = self.tables.as_ref().map(Tables::place);
        state.check_position()?;
        let in_flight = state.check(self.target(), tables)?;
        self.slots = Slots::restore(S::KIND, &state.buffers, &state.entries, data)
            .map_err(|id| RestoreError::NoData { id })?;
        self.side.resume(&Indices {
            available: state.available,
            unkicked: state.unkicked,
            position: state.position,
            in_flight,
            used_seen: state.used_seen,
            batch: state.batch,
            broken: state.broken.is_some(),
        });
        self.armed = state.armed;
        self.broken = state.broken;
        // A broken queue has no free descriptors, as after `break_with`.
        self.free = match state.broken {
            Some(_) => 0,
            None => state.size - state.filled(),
        };
        let (polled, broken) = ((state.base, state.wrap_counter), state.broken.is_some());
        self.publish(state.position, state.batch.is_some());
        self.state.restore(polled, broken);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Advances the positions by an even number of laps, as if the buffers of these laps had been used. On a split
    /// ring, a lap is 65,536 buffers.
    pub(crate) fn skip_laps(&mut self, laps: u64) {
        let mut indices = self.side.save();
        indices.position += laps << 16;
        self.side.resume(&indices);
        self.publish(indices.position, indices.batch.is_some());
    }
}

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    #[inline]
    fn add_single(
        &mut self,
        buffer: Buffer,
        flags: u16,
        writable_len: u32,
        data: T,
    ) -> Result<(), NotAdded<T>> {
        if self.free == 0 {
            let error = self.refusal(1, 1, self.slots.size(), 0);
            return Err(NotAdded { error, data });
        }
        let head = self.slots.first();
        self.slots.take_one(head, writable_len, data);
        self.free -= 1;
        self.side.offer(head, buffer, flags);
        Ok(())
    }

    #[inline(never)]
    fn add_pieces(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: T,
    ) -> Result<(), NotAdded<T>> {
        let pieces = readable.len() + writable.len();
        let (len, writable_len) = Buffer::lengths(readable, writable);
        let (needed, limit) = match &self.tables {
            Some(tables) => (1, tables.entries()),
            None => (pieces, self.slots.size()),
        };
        // Without pieces, the subtraction wraps to a number above every limit.
        if pieces.wrapping_sub(1) >= usize::from(limit)
            || needed > usize::from(self.free)
            || len > u64::from(u32::MAX)
        {
            let error = self.refusal(pieces, needed, limit, len);
            return Err(NotAdded { error, data });
        }
        let head = self.slots.first();
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        let (count, writable_len) = (needed as u16, writable_len as u32);
        self.free -= count;
        if let Some(tables) = &self.tables {
            let (addr, bytes) = tables.fill(head, readable, writable, S::LINKED);
            self.slots.take_one(head, writable_len, data);
            self.side.offer(head, Buffer::new(addr, bytes), INDIRECT);
        } else {
            let pieces = (readable, writable);
            let last = self.side.offer_chain(&self.slots, head, pieces, needed);
            self.slots.take(head, last, count, writable_len, data);
        }
        Ok(())
    }

    /// Returns why a buffer of `pieces` that needs `needed` descriptors cannot be added.
    #[cold]
    fn refusal(&self, pieces: usize, needed: usize, limit: u16, len: u64) -> AddError {
        if let Some(error) = self.broken {
            return AddError::Broken(error);
        }
        AddError::why(pieces, needed, limit, len, self.free)
    }
}

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// The ids of the buffers in flight and their data, in the order of [`DriverState::buffers`].
    pub fn in_flight(&self) -> impl Iterator<Item = (u16, &T)> {
        self.slots.all()
    }

    fn target(&self) -> Target {
        Target {
            ring: S::KIND,
            size: self.slots.size(),
            features: self.features,
        }
    }
}
