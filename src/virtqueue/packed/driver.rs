//! The driver side of a packed ring, owned by one thread at a time.
//!
//! Adding is in `add`, consuming in `used`; here are set-up, suppression and polling
//! (virtio 1.3, 2.8.14 and 2.8.21).

use crate::virtqueue::{
    Brand, Buffer, DriverControl, DriverQueue, Features, NotAdded, Opaque, PackedLayout, Poller,
    QueueError, SetupError, Status, Token, Used, WrapCounterError, descriptor,
    indirect::Tables,
    memory::RingMemory,
    poll::State,
    slots::Slots,
    sync::{Arc, Ordering, fence},
};

use super::{
    position::Position,
    ring::{Event, PackedRing},
};

/// Offers buffers on a packed ring and takes them back.
///
/// `T` is what the driver wants back with each buffer; `B` tells this queue's tokens from others'.
#[derive(Debug)]
pub struct PackedDriver<T, M, B> {
    pub(super) ring: PackedRing<M>,
    /// By buffer id.
    pub(super) slots: Slots<T>,
    /// Ring slots that are free; none of a broken queue.
    pub(super) free: u16,
    /// Where the next buffer goes.
    pub(super) available: Position,
    /// The same when a notification was last considered.
    kicked: Position,
    /// Where the next used descriptor will be.
    pub(super) position: Position,
    /// Notifications are wanted, and by position, so consuming moves the event.
    pub(super) armed: bool,
    /// Of a batch that ends beyond the consumed buffers: the id and length of its last.
    pub(super) batch: Option<(u16, u32)>,
    pub(super) features: Features,
    pub(super) tables: Option<Tables<M>>,
    pub(super) broken: Option<QueueError>,
    pub(super) state: Arc<State>,
    brand: B,
}

impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
    /// Empties the ring and takes the driver's side of it, with notifications on.
    ///
    /// # Errors
    ///
    /// If the layout has no proper size, or a part of it is misaligned or outside of `memory`.
    pub fn new(
        memory: &M,
        layout: &PackedLayout,
        features: Features,
        brand: B,
    ) -> Result<Self, SetupError> {
        let ring = PackedRing::resolve(memory, layout)?;
        ring.clear();
        Ok(Self {
            slots: Slots::new(layout.size),
            free: layout.size,
            available: Position::START,
            kicked: Position::START,
            position: Position::START,
            armed: false,
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
    /// There is a table a buffer id: `size * entries * 16` bytes from `addr` on.
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
    pub fn ring(&self) -> &PackedRing<M> {
        &self.ring
    }

    /// The brand, which the queue holds for its life.
    pub fn brand(&self) -> &B {
        &self.brand
    }

    /// A handle that polls from another thread.
    pub fn poller(&self) -> Poller<PackedRing<M>, B> {
        Poller::new(self.ring.clone(), Arc::clone(&self.state))
    }

    #[cold]
    pub(super) fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        self.state.set_broken();
        // Adding leaves into its slow path from here on.
        self.free = 0;
        error
    }

    /// Asks for a notification of the descriptor at `event`, or of any without event indices.
    pub(super) fn ask(&mut self, event: Position) {
        self.armed = self.features.event_idx;
        self.ring.set_driver_event(if self.armed {
            Event::Descriptor(event.off_wrap())
        } else {
            Event::Enable
        });
        // Between the request and the next look at a descriptor, against the same between the
        // device's used descriptor and its look at the request: one of the two sides sees the
        // other's store.
        fence(Ordering::SeqCst);
    }

    /// Whether the device has used the descriptor at `position`.
    pub(super) fn is_used(&self, position: Position) -> bool {
        position.is_used(descriptor::packed::flags(self.ring.look(position)))
    }
}

impl<T, M: RingMemory, B: Brand> DriverQueue for PackedDriver<T, M, B> {
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
        // Between the descriptors' flags and the look at what the device asks for.
        fence(Ordering::SeqCst);
        if self.broken.is_some() || self.available == self.kicked {
            return false;
        }
        let size = self.ring.size();
        let steps = self.available.since(self.kicked, size);
        self.kicked = self.available;
        self.ring.device_event().wants(self.available, steps, size)
    }

    #[inline]
    fn get_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        self.next_used()
    }

    fn disable_cb(&mut self) {
        self.armed = false;
        self.ring.set_driver_event(Event::Disable);
    }

    fn enable_cb_prepare(&mut self) -> Opaque<B> {
        self.ask(self.position);
        self.state.opaque::<PackedRing<M>, B>()
    }

    fn enable_cb_prepare64(&mut self) -> Token<B> {
        self.ask(self.position);
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
        let size = self.ring.size();
        let outstanding = self.available.since(self.position, size);
        let most = u16::try_from(outstanding * 3 / 4).unwrap_or(0);
        let event = self.position.advance(most, size);
        self.ask(event);
        // Buffers of several slots leave gaps, so only the first used descriptor is sure to show.
        self.broken.is_some() || !self.is_used(self.position)
    }
}

impl<T, M: RingMemory, B: Brand> DriverControl for PackedDriver<T, M, B> {
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
        self.position = Position(self.state.position());
        (self.available, self.kicked) = (self.position, self.position);
        self.armed = false;
        self.batch = None;
        self.broken = None;
    }
}

#[cfg(test)]
impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
    /// Pretends that an even number of laps has gone by.
    pub(in crate::virtqueue) fn skip_laps(&mut self, laps: u64) {
        for position in [&mut self.position, &mut self.available, &mut self.kicked] {
            position.0 += laps << 16;
        }
        self.state.set_position(self.position.0);
    }
}
