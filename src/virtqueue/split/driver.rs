//! The driver side of a split ring, owned by one thread at a time.
//!
//! Adding is in `add`, consuming in `used`; here are set-up, suppression and polling
//! (virtio 1.3, 2.7.7, 2.7.10 and 2.7.13).

use crate::virtqueue::{
    Brand, Buffer, DriverControl, DriverQueue, Features, NotAdded, Opaque, Poller, QueueError,
    SetupError, SplitLayout, Status, Token, Used, WrapCounterError,
    indirect::Tables,
    memory::RingMemory,
    need_event::need_event,
    poll::State,
    slots::Slots,
    sync::{Arc, Ordering, fence},
};

use super::ring::{NO_INTERRUPT, SplitRing};

/// Offers buffers on a split ring and takes them back.
///
/// `T` is what the driver wants back with each buffer; `B` tells this queue's tokens from others'.
#[derive(Debug)]
pub struct SplitDriver<T, M, B> {
    pub(super) ring: SplitRing<M>,
    pub(super) slots: Slots<T>,
    /// Descriptors that are free; none of a broken queue.
    pub(super) free: u16,
    /// Buffers made available so far; the low half is the ring's index.
    pub(super) available: u64,
    /// The same when a notification was last considered.
    kicked: u64,
    /// Buffers consumed so far; the low half is the ring's index.
    pub(super) position: u64,
    /// The device's index as last seen.
    pub(super) used_idx: u16,
    /// Notifications are wanted, and by position, so consuming moves the event.
    pub(super) armed: bool,
    /// Of a batch that ends beyond the consumed buffers: the id and length of its last.
    pub(super) batch: Option<(u32, u32)>,
    pub(super) features: Features,
    pub(super) tables: Option<Tables<M>>,
    pub(super) broken: Option<QueueError>,
    pub(super) state: Arc<State>,
    brand: B,
}

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    /// Empties the ring and takes the driver's side of it, with notifications on.
    ///
    /// # Errors
    ///
    /// If the layout has no proper size, or a part of it is misaligned or outside of `memory`.
    pub fn new(
        memory: &M,
        layout: &SplitLayout,
        features: Features,
        brand: B,
    ) -> Result<Self, SetupError> {
        let ring = SplitRing::resolve(memory, layout)?;
        ring.clear();
        Ok(Self {
            slots: Slots::new(layout.size),
            free: layout.size,
            available: 0,
            kicked: 0,
            position: 0,
            used_idx: 0,
            armed: features.event_idx,
            batch: None,
            features,
            tables: None,
            broken: None,
            state: State::new(),
            brand,
            ring,
        })
    }

    /// Puts buffers of 2 to `entries` pieces into indirect tables, one descriptor each.
    ///
    /// There is a table a descriptor: `size * entries * 16` bytes from `addr` on.
    ///
    /// # Errors
    ///
    /// If the feature was not negotiated, or the tables are misaligned or outside of memory.
    pub fn with_indirect_tables(mut self, addr: u64, entries: u16) -> Result<Self, SetupError> {
        let (memory, size) = (self.ring.memory(), self.ring.size());
        self.tables = Some(Tables::resolve(memory, addr, size, entries, self.features)?);
        Ok(self)
    }

    /// The ring, for a device side in this process and for pollers.
    pub fn ring(&self) -> &SplitRing<M> {
        &self.ring
    }

    /// The brand, which the queue holds for its life.
    pub fn brand(&self) -> &B {
        &self.brand
    }

    /// A handle that polls from another thread.
    pub fn poller(&self) -> Poller<SplitRing<M>, B> {
        Poller::new(self.ring.clone(), Arc::clone(&self.state))
    }

    #[cold]
    pub(super) fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        self.state.set_broken();
        // Both hot paths leave into their slow ones from here on.
        self.free = 0;
        self.used_idx = self.index();
        error
    }

    /// The used ring's index up to which the driver has consumed.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    pub(super) fn index(&self) -> u16 {
        self.position as u16
    }

    /// Buffers in flight.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    pub(super) fn outstanding(&self) -> u16 {
        (self.available as u16).wrapping_sub(self.index())
    }

    /// Asks for a notification of the first buffer that is used from `event` on.
    pub(super) fn ask(&mut self, event: u16) {
        if self.features.event_idx {
            self.armed = true;
            self.ring.set_used_event(event);
        } else {
            self.ring.set_avail_flags(0);
        }
        // Between the request and the next look at the used index, against the same between the
        // device's index and its look at the request: one of the two sides sees the other's store.
        fence(Ordering::SeqCst);
    }
}

impl<T, M: RingMemory, B: Brand> DriverQueue for SplitDriver<T, M, B> {
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
        // Between the available index and the look at what the device asks for.
        fence(Ordering::SeqCst);
        let steps = self.available - self.kicked;
        if self.broken.is_some() || steps == 0 {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
        let (new, old) = (self.available as u16, self.kicked as u16);
        self.kicked = self.available;
        if self.features.event_idx {
            steps > u64::from(u16::MAX) || need_event(self.ring.avail_event(), new, old)
        } else {
            self.ring.used_flags() & super::ring::NO_NOTIFY == 0
        }
    }

    #[inline]
    fn get_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        self.next_used()
    }

    fn disable_cb(&mut self) {
        if self.features.event_idx {
            self.armed = false;
            // As far from what may be in flight as can be, before and behind it.
            self.ring.set_used_event(self.index().wrapping_add(1 << 15));
        } else {
            self.ring.set_avail_flags(NO_INTERRUPT);
        }
    }

    fn enable_cb_prepare(&mut self) -> Opaque<B> {
        self.ask(self.index());
        self.state.opaque::<SplitRing<M>, B>()
    }

    fn enable_cb_prepare64(&mut self) -> Token<B> {
        self.ask(self.index());
        self.state.token()
    }

    #[inline]
    fn poll(&self, opaque: Opaque<B>) -> bool {
        self.state.poll(&self.ring, opaque)
    }

    #[inline]
    fn poll64(&self, token: Token<B>) -> bool {
        self.state.poll64(&self.ring, token)
    }

    fn enable_cb_delayed(&mut self) -> bool {
        let most = u32::from(self.outstanding()) * 3 / 4;
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        self.ask(self.index().wrapping_add(most));
        self.broken.is_some() || self.ring.used_idx().wrapping_sub(self.index()) <= most
    }
}

impl<T, M: RingMemory, B: Brand> DriverControl for SplitDriver<T, M, B> {
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
        let size = self.ring.size();
        self.ring.clear();
        self.state.reset();
        self.slots = Slots::new(size);
        self.free = size;
        (self.available, self.kicked) = (0, 0);
        self.position = self.state.position();
        self.used_idx = 0;
        self.armed = self.features.event_idx;
        self.batch = None;
        self.broken = None;
    }
}

#[cfg(test)]
impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    /// Pretends that laps have gone by: 65,536 buffers each.
    pub(in crate::virtqueue) fn skip_laps(&mut self, laps: u64) {
        self.position += laps << 16;
        self.state.set_position(self.position);
    }
}
