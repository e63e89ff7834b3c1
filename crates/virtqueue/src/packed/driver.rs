//! The driver side of a packed ring, owned by one thread at a time: it makes buffers available, suppresses events and
//! resets (virtio 1.3, 2.8.6, 2.8.14 and 2.8.21), and consumes used buffers (2.8.5, 2.8.9 and 2.8.22).

use super::PackedLayout;
use super::ring::{EventSuppression, PackedRing, Position, look};
use crate::brand::Brand;
use crate::descriptor::packed::rest;
use crate::descriptor::{self, Buffer, NEXT, Used, WRITE};
use crate::driver::Driver;
use crate::driver::{Indices, Side};
use crate::error::{QueueError, SetupError};
use crate::features::Features;
use crate::memory::{Cursor, RingMemory};
use crate::poll::IN_BATCH;
use crate::ring::Ring;
use crate::ring::Sealed;
use crate::save::{self, RingKind};
use crate::slots::{Returned, Slots};
use crate::sync::Ordering;

/// The driver side of a packed ring: makes buffers available and takes used buffers back.
pub type PackedDriver<T, M, B> = Driver<T, PackedSide<M>, B>;

/// The part of the driver side that is specific to packed rings.
#[derive(Debug)]
pub struct PackedSide<M> {
    pub(super) ring: PackedRing<M>,
    /// The position of the next buffer to make available.
    available: Cursor<M>,
    /// The value of `available` when a notification was last considered.
    kicked: Position,
    /// The position of the next used descriptor; blocked if the queue is broken.
    used: Cursor<M>,
    /// For a partly consumed in-order batch: the id and length of its last buffer.
    batch: Option<(u16, u32)>,
    /// [`IN_BATCH`] if a batch is partly consumed, otherwise 0; published together with the position.
    in_batch: u64,
}

impl<M> PackedSide<M> {
    fn set_batch(&mut self, batch: Option<(u16, u32)>) {
        self.batch = batch;
        self.in_batch = if batch.is_some() { IN_BATCH } else { 0 };
    }
}

impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
    /// Initializes the ring and takes its driver side, with notifications enabled.
    ///
    /// # Errors
    ///
    /// If the size is not allowed, or a part of the ring is misaligned or outside of `memory`.
    pub fn new(
        memory: &M,
        layout: &PackedLayout,
        features: Features,
        brand: B,
    ) -> Result<Self, SetupError> {
        let driver = Self::attach(memory, layout, features, brand)?;
        driver.side.ring.clear();
        Ok(driver)
    }

    /// Takes the driver side of a ring in use, without writing to the ring. It must be [restored](Driver::restore)
    /// before any other call except [`with_indirect_tables`](Self::with_indirect_tables).
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn attach(
        memory: &M,
        layout: &PackedLayout,
        features: Features,
        brand: B,
    ) -> Result<Self, SetupError> {
        let ring = PackedRing::resolve(memory, layout)?;
        let side = PackedSide {
            available: ring.available(),
            used: ring.used(),
            ring,
            kicked: Position::START,
            batch: None,
            in_batch: 0,
        };
        Ok(Self::over(side, layout.size, features, brand))
    }
}

impl<M> Sealed for PackedSide<M> {}

impl<M: RingMemory> Side for PackedSide<M> {
    type Memory = M;
    type Ring = PackedRing<M>;

    const KIND: RingKind = RingKind::Packed;
    const LINKED: bool = false;
    /// The event structure of an initialized ring enables all notifications.
    const ARMED_AT_START: bool = false;
    /// The device writes one used descriptor for the whole batch.
    const HIDES_BATCH: bool = true;

    fn ring(&self) -> &PackedRing<M> {
        &self.ring
    }

    #[inline]
    fn offer(&mut self, id: u16, buffer: Buffer, flags: u16) {
        let rest = rest(buffer.len, id, flags) | self.available.mark();
        // Release: a device that sees the flags sees the address as well.
        let descriptor = self.available.get();
        descriptor.store(buffer.addr, rest, Ordering::Release);
        self.available.advance(1);
    }

    /// Writes the second word of the first descriptor last.
    fn offer_chain<T>(
        &mut self,
        _slots: &Slots<T>,
        id: u16,
        (readable, writable): (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> u16 {
        let size = self.ring.size();
        let start = Position::of(&self.available);
        let mut at = start;
        let mut left = needed;
        let mut first = 0;
        let mut write = |buffer: &Buffer, flags: u16| {
            left -= 1;
            let more = if left == 0 { 0 } else { NEXT };
            let rest = rest(buffer.len, id, flags | more | at.available());
            if at == start {
                first = rest;
                self.ring.at(at).store_addr(buffer.addr);
            } else {
                // The device does not load this descriptor before the first one, but a poller may, if its token is for
                // this slot one lap earlier. Release: such a poller sees the driver's new position.
                self.ring.at(at).store(buffer.addr, rest, Ordering::Release);
            }
            at = at.advance(1, size);
        };
        for buffer in readable {
            write(buffer, 0);
        }
        for buffer in writable {
            write(buffer, WRITE);
        }
        // Release: a device that sees the flags sees the whole chain.
        self.available.get().store_rest(first, Ordering::Release);
        #[expect(clippy::cast_possible_truncation, reason = "at most the queue size")]
        self.available.advance(needed as u16);
        id
    }

    #[inline]
    fn kick_prepare(&mut self, _event_idx: bool) -> bool {
        let available = Position::of(&self.available);
        if available == self.kicked {
            return false;
        }
        let size = self.ring.size();
        let steps = available.since(self.kicked, size);
        self.kicked = available;
        self.ring.device_event().wants(available, steps, size)
    }

    #[inline(always)]
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError> {
        driver.take_used()
    }

    #[inline]
    fn set_event(&self, event_idx: bool, after: Option<u16>) {
        let position = Position::of(&self.used);
        self.ring.set_driver_event(match after {
            None => EventSuppression::Disable,
            Some(_) if !event_idx => EventSuppression::Enable,
            Some(0) => EventSuppression::Descriptor(position.off_wrap()),
            Some(after) => {
                let event = position.advance(after, self.ring.size());
                EventSuppression::Descriptor(event.off_wrap())
            }
        });
    }

    fn save(&self) -> Indices {
        let size = self.ring.size();
        let (available, position) = (Position::of(&self.available), Position::of(&self.used));
        let in_flight = available.since(position, size);
        Indices {
            available: available.off_wrap(),
            unkicked: save::at_most_many(available.since(self.kicked, size)),
            position: position.0,
            // No more descriptors are in flight than the ring has.
            in_flight: u16::try_from(in_flight).unwrap_or(size),
            used_seen: 0,
            batch: self.batch,
            broken: false,
        }
    }

    fn resume(&mut self, indices: &Indices) {
        let size = self.ring.size();
        let available = Position(indices.position).advance(indices.in_flight, size);
        self.used.set(indices.position);
        self.available.set(available.0);
        self.kicked = available.back(indices.unkicked, size);
        self.set_batch(indices.batch);
        if indices.broken {
            self.used.block();
        }
    }
}

impl<T, M: RingMemory, B: Brand> PackedDriver<T, M, B> {
    #[inline(always)]
    pub(super) fn take_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        let element = if self.features.in_order {
            self.next_in_order()?
        } else {
            self.look()
        };
        let Some((id, len)) = element else {
            return self.broken.map_or(Ok(None), Err);
        };
        let returned = self.slots.give_back(u32::from(id), len, false);
        let Some(Returned { data, count }) = returned else {
            return Err(self.refuse(id, len));
        };
        self.free += count;
        self.side.used.advance(count);
        let position = self.side.used.position();
        self.state.publish(position | self.side.in_batch);
        // The event is set only after the batch's last used buffer: until then, the device is past any event that could
        // be set.
        if self.armed && self.side.in_batch == 0 && !look(&self.side.used).1 {
            self.ask(0);
        }
        Ok(Some(Used { data, len }))
    }

    /// The id and length of the next used descriptor, if the device has written it.
    #[inline]
    fn look(&self) -> Option<(u16, u32)> {
        // Acquire: the device wrote the buffer before the flags.
        let (rest, used) = look(&self.side.used);
        if !used {
            return None;
        }
        let flags = descriptor::packed::flags(rest);
        // The length is valid only if the flag WRITE is set (virtio 1.3, 2.8.5).
        let len = if flags & WRITE == 0 {
            0
        } else {
            descriptor::len(rest)
        };
        Some((descriptor::packed::id(rest), len))
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        // Makes `take_used` find nothing and return the error.
        self.side.used.block();
        self.break_with(error)
    }

    /// Breaks the queue because of an invalid used descriptor.
    #[cold]
    fn refuse(&mut self, id: u16, len: u32) -> QueueError {
        let error = self.slots.refusal(u32::from(id), len);
        self.fail(error)
    }

    /// The id and length of the oldest buffer of an in-order ring. There, one used descriptor covers all buffers up to
    /// the one that it names.
    #[inline(never)]
    fn next_in_order(&mut self) -> Result<Option<(u16, u32)>, QueueError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let batch = self.side.batch.or_else(|| self.look());
        self.side.set_batch(None);
        let Some((last, len)) = batch else {
            return Ok(None);
        };
        let oldest = self.slots.oldest();
        let len = if oldest == last {
            len
        } else {
            let whole = match self.slots.skipped(u32::from(oldest), u32::from(last)) {
                Ok(whole) => whole,
                Err(error) => return Err(self.fail(error)),
            };
            self.side.set_batch(Some((last, len)));
            whole
        };
        Ok(Some((oldest, len)))
    }
}
