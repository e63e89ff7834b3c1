//! The driver side of a queue, owned by one thread at a time: the part that both kinds of ring share.
//!
//! It sets the queue up, makes buffers available (virtio 1.3, 2.7.13 and 2.8.21), suppresses notifications, polls,
//! resets, saves and restores. The part that is specific to one kind of ring is a [`Side`]: its indices, and how it
//! writes and reads the ring.

mod state;

use super::brand::Brand;
use super::error::{AddError, NotAdded, QueueError, SetupError};
use super::features::Features;
use super::indirect::Tables;
use super::memory::RingMemory;
use super::poll::{IN_BATCH, PollState};
use super::poll::{Progress, QueuePoller, Token};
use super::ring::{Ring, Sealed};
use super::save::RingKind;
use super::slots::Slots;
use super::sync::{Arc, Ordering, fence};
use crate::descriptor::{Buffer, INDIRECT, Used, WRITE};

/// How far a driver side has got in the ring.
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
    /// Whether a new queue uses an event index to enable its notifications, if event indices were negotiated.
    const ARMED_AT_START: bool;

    #[doc(hidden)]
    /// Whether the ring does not show the remaining buffers of a partly consumed in-order batch.
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
    /// Enables a notification of the buffer (split) or slot (packed) that is `after` places after the position; without
    /// event indices, a notification of every buffer. If `after` is `None`, disables notifications.
    fn set_event(&self, event_idx: bool, after: Option<u16>);

    #[doc(hidden)]
    /// Returns the side's position in the ring.
    fn save(&self) -> Indices;

    #[doc(hidden)]
    /// Continues from `indices`, which the caller has checked.
    fn resume(&mut self, indices: &Indices);
}

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

    /// Enables a notification of the buffer (split) or slot (packed) that is `after` places after the next one.
    #[inline]
    pub(super) fn ask(&mut self, after: u16) {
        self.armed = self.features.event_idx;
        self.side.set_event(self.features.event_idx, Some(after));
        // Orders the store of the event suppression before the next load of the device's used position. Pairs with the
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
        // Orders the store that made buffers available before the load of the device's event suppression.
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
