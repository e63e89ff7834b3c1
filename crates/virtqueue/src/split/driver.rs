//! The driver side of a split ring, owned by one thread at a time: it makes buffers available, suppresses events and
//! resets (virtio 1.3, 2.7.5, 2.7.7, 2.7.10 and 2.7.13), and consumes used buffers (2.7.8, 2.7.9 and 2.7.14).
//!
//! `take_used` has one inlined path for all used buffers. The unusual cases are out of line, and return an element or
//! an error. If they returned the same type as `take_used`, that value would be written to memory, and so would the
//! usual result.

use super::SplitLayout;
use super::ring::{NO_INTERRUPT, NO_NOTIFY, SplitRing};
use crate::brand::Brand;
use crate::descriptor::split::rest;
use crate::descriptor::{Buffer, NEXT, Used, WRITE};
use crate::driver::Driver;
use crate::driver::{Indices, Side};
use crate::error::{QueueError, SetupError};
use crate::features::{Features, need_event};
use crate::memory::RingMemory;
use crate::ring::Ring;
use crate::ring::Sealed;
use crate::save::{self, RingKind};
use crate::slots::{Returned, Slots};

/// The driver side of a split ring: makes buffers available and takes used buffers back.
pub type SplitDriver<T, M, B> = Driver<T, SplitSide<M>, B>;

/// The part of the driver side that is specific to split rings.
#[derive(Debug)]
pub struct SplitSide<M> {
    pub(super) ring: SplitRing<M>,
    /// Buffers made available so far; the low half is the index in the ring.
    available: u64,
    /// The value of `available` when a notification was last considered.
    kicked: u64,
    /// Buffers consumed so far; the low half is the index in the ring.
    pub(super) position: u64,
    /// The device's used index as last loaded.
    pub(super) used_idx: u16,
    /// For a partly consumed in-order batch: the id and length of its last buffer.
    pub(super) batch: Option<(u32, u32)>,
}

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    /// Initializes the ring and takes its driver side, with notifications enabled.
    ///
    /// # Errors
    ///
    /// If the size is not allowed, or a part of the ring is misaligned or outside of `memory`.
    pub fn new(
        memory: &M,
        layout: &SplitLayout,
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
        layout: &SplitLayout,
        features: Features,
        brand: B,
    ) -> Result<Self, SetupError> {
        let side = SplitSide {
            ring: SplitRing::resolve(memory, layout)?,
            available: 0,
            kicked: 0,
            position: 0,
            used_idx: 0,
            batch: None,
        };
        Ok(Self::over(side, layout.size, features, brand))
    }
}

impl<M: RingMemory> SplitSide<M> {
    /// The index of the used ring up to which the driver has consumed.
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

    /// Makes the buffer that begins at this descriptor available.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    fn publish(&mut self, head: u16) {
        self.ring.set_avail(self.available, head);
        self.available += 1;
        // Release: a device that sees the index sees the descriptors and the available ring's entry.
        self.ring.publish_avail(self.available as u16);
    }
}

impl<M> Sealed for SplitSide<M> {}

impl<M: RingMemory> Side for SplitSide<M> {
    type Memory = M;
    type Ring = SplitRing<M>;

    const KIND: RingKind = RingKind::Split;
    const LINKED: bool = true;
    const ARMED_AT_START: bool = true;
    /// The ring's index covers the whole batch.
    const HIDES_BATCH: bool = false;

    fn ring(&self) -> &SplitRing<M> {
        &self.ring
    }

    #[inline]
    fn offer(&mut self, head: u16, buffer: Buffer, flags: u16) {
        let rest = rest(buffer.len, flags, 0);
        self.ring.set_descriptor(head, buffer.addr, rest);
        self.publish(head);
    }

    /// Fills free descriptors in the order of the free list.
    fn offer_chain<T>(
        &mut self,
        slots: &Slots<T>,
        head: u16,
        (readable, writable): (&[Buffer], &[Buffer]),
        needed: usize,
    ) -> u16 {
        let (mut next, mut last) = (head, head);
        let mut left = needed;
        let mut write = |buffer: &Buffer, flags: u16| {
            last = next;
            next = slots.next(last);
            left -= 1;
            let rest = match left {
                0 => rest(buffer.len, flags, 0),
                _ => rest(buffer.len, flags | NEXT, next),
            };
            self.ring.set_descriptor(last, buffer.addr, rest);
        };
        for buffer in readable {
            write(buffer, 0);
        }
        for buffer in writable {
            write(buffer, WRITE);
        }
        self.publish(head);
        last
    }

    #[inline]
    fn kick_prepare(&mut self, event_idx: bool) -> bool {
        let steps = self.available - self.kicked;
        if steps == 0 {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
        let (new, old) = (self.available as u16, self.kicked as u16);
        self.kicked = self.available;
        if event_idx {
            steps > u64::from(u16::MAX) || need_event(self.ring.avail_event(), new, old)
        } else {
            self.ring.used_flags() & NO_NOTIFY == 0
        }
    }

    #[inline(always)]
    fn next_used<T, B: Brand>(
        driver: &mut Driver<T, Self, B>,
    ) -> Result<Option<Used<T>>, QueueError> {
        driver.take_used()
    }

    #[inline]
    fn set_event(&self, event_idx: bool, after: Option<u16>) {
        if event_idx {
            // If notifications are to be disabled, the event index is the one that is farthest from the indices of the
            // buffers in flight, in both directions.
            let after = after.unwrap_or(1 << 15);
            self.ring.set_used_event(self.index().wrapping_add(after));
        } else {
            let flags = after.map_or(NO_INTERRUPT, |_| 0);
            self.ring.set_avail_flags(flags);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    fn save(&self) -> Indices {
        Indices {
            available: self.available as u16,
            unkicked: save::at_most_many(self.available - self.kicked),
            position: self.position,
            in_flight: self.outstanding(),
            used_seen: self.used_idx,
            // The id belongs to a buffer in flight, so it fits.
            batch: self.batch.map(|(id, len)| (id as u16, len)),
            broken: false,
        }
    }

    fn resume(&mut self, indices: &Indices) {
        self.position = indices.position;
        // Far enough from zero that `kicked` cannot be negative.
        let available = self.index().wrapping_add(indices.in_flight);
        self.available = u64::from(available) + u64::from(save::MANY);
        self.kicked = self.available - u64::from(indices.unkicked);
        self.used_idx = indices.used_seen;
        self.batch = indices.batch.map(|(id, len)| (id.into(), len));
    }
}

impl<T, M: RingMemory, B: Brand> SplitDriver<T, M, B> {
    #[inline(always)]
    pub(super) fn take_used(&mut self) -> Result<Option<Used<T>>, QueueError> {
        if self.side.index() == self.side.used_idx && !self.look()? {
            return Ok(None);
        }
        let (id, len) = if self.features.in_order {
            self.next_in_order()?
        } else {
            self.side.ring.used(self.side.position)
        };
        let Some(Returned { data, count }) = self.slots.give_back(id, len, true) else {
            return Err(self.refuse(id, len));
        };
        self.free += count;
        self.side.position += 1;
        self.state.publish(self.side.position);
        // The event is set only at the last known used buffer: before that, the device's index is past any event that
        // could be set.
        if self.armed && self.side.index() == self.side.used_idx {
            self.ask(0);
        }
        Ok(Some(Used { data, len }))
    }

    /// Loads the device's used index; returns whether there is a new element.
    #[inline]
    fn look(&mut self) -> Result<bool, QueueError> {
        // Acquire: the device wrote the elements before the index.
        let index = self.side.ring.used_idx();
        let ahead = index.wrapping_sub(self.side.index());
        if ahead > self.side.outstanding() || self.broken.is_some() {
            return Err(self.refuse_index(index));
        }
        self.side.used_idx = index;
        Ok(ahead != 0)
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        // Makes `take_used` load the index again, and that returns the error.
        self.side.used_idx = self.side.index();
        self.break_with(error)
    }

    /// Breaks the queue because of its used index, unless it is broken already.
    #[cold]
    fn refuse_index(&mut self, index: u16) -> QueueError {
        self.broken.unwrap_or_else(|| {
            self.fail(QueueError::UsedAhead {
                index,
                consumed: self.side.index(),
                outstanding: self.side.outstanding(),
            })
        })
    }

    /// Breaks the queue because of its used element.
    #[cold]
    fn refuse(&mut self, id: u32, len: u32) -> QueueError {
        let error = self.slots.refusal(id, len);
        self.fail(error)
    }

    /// The id and length of the oldest buffer of an in-order ring. There, one used element covers all buffers up to the
    /// one that it names.
    #[inline(never)]
    fn next_in_order(&mut self) -> Result<(u32, u32), QueueError> {
        let (last, len) = match self.side.batch.take() {
            Some(batch) => batch,
            None => self.side.ring.used(self.side.position),
        };
        let oldest = u32::from(self.slots.oldest());
        let len = if oldest == last {
            len
        } else {
            let whole = match self.slots.skipped(oldest, last) {
                Ok(whole) => whole,
                Err(error) => return Err(self.fail(error)),
            };
            let index = self.side.used_idx;
            if self.side.index().wrapping_add(1) == index {
                return Err(self.fail(QueueError::BatchPastIndex { id: last, index }));
            }
            self.side.batch = Some((last, len));
            whole
        };
        Ok((oldest, len))
    }
}
