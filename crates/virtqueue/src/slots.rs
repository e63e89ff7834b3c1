//! The driver side's private state for each descriptor or buffer id. The device cannot write it.
//!
//! The free entries form a list: the driver takes entries from one end and returns them to the other. So an in-order
//! device finds descriptors in the order of the table, as virtio 1.3, 2.7.9 requires. And a descriptor that a device on
//! another core has just used is not rewritten while its cache line is still on that core.

use super::error::QueueError;
use super::hint::unlikely;
use super::save::{BufferState, RingKind};

#[derive(Debug)]
struct Slot<T> {
    /// The driver's data for the buffer that starts here, if such a buffer is in flight.
    data: Option<T>,
    /// How many bytes the device may write to that buffer.
    writable: u32,
    /// How many ring slots the buffer fills.
    count: u16,
    /// The next entry in the free list or in the buffer; [`NONE`] at the end of the list.
    next: u16,
}

/// A buffer that the device has used.
#[derive(Debug)]
pub(super) struct Returned<T> {
    pub(super) data: T,
    /// How many ring slots the buffer filled.
    pub(super) count: u16,
}

/// Means "no entry"; queues have at most 32768 entries.
const NONE: u16 = u16::MAX;

#[derive(Debug)]
pub struct Slots<T> {
    slots: Box<[Slot<T>]>,
    /// The first free entry, or [`NONE`].
    first: u16,
    /// The entry that was given back last. It is the last one of the free list, unless the list is empty.
    tail: u16,
}

impl<T> Slots<T> {
    /// Makes `size` free entries; the caller has checked the queue size.
    pub(super) fn new(size: u16) -> Self {
        let slot = |i: u16| Slot {
            data: None,
            writable: 0,
            count: 0,
            next: if i + 1 == size { NONE } else { i + 1 },
        };
        Self {
            slots: (0..size).map(slot).collect(),
            first: 0,
            tail: size - 1,
        }
    }

    /// The entry after `slot`.
    #[inline]
    pub(super) fn next(&self, slot: u16) -> u16 {
        self.slots[usize::from(slot)].next
    }

    /// The entry that [`take`](Self::take) takes first, or [`NONE`] if none is free.
    #[inline]
    pub(super) fn first(&self) -> u16 {
        self.first
    }

    /// Records a buffer that starts at `head`, fills `count` ring slots and takes the free entries up to `last`. The
    /// caller has checked that there are enough free entries.
    #[inline]
    pub(super) fn take(&mut self, head: u16, last: u16, count: u16, writable: u32, data: T) {
        self.first = self.next(last);
        self.slots[usize::from(last)].next = NONE;
        let slot = &mut self.slots[usize::from(head)];
        debug_assert!(slot.data.is_none(), "a free entry holds nothing");
        slot.data = Some(data);
        slot.writable = writable;
        slot.count = count;
    }

    /// Records a buffer of one descriptor at the first free entry; the caller has checked that an entry is free.
    #[inline]
    pub(super) fn take_one(&mut self, head: u16, writable: u32, data: T) {
        let slot = &mut self.slots[usize::from(head)];
        debug_assert!(slot.data.is_none(), "a free entry holds nothing");
        self.first = slot.next;
        *slot = Slot {
            data: Some(data),
            writable,
            count: 1,
            next: NONE,
        };
    }

    /// Appends the entries from `head` to `last` to the free list. `last` already has no successor, since it was taken.
    #[inline]
    fn link(&mut self, head: u16, last: u16) {
        if self.first == NONE {
            unlikely();
            self.first = head;
        } else {
            self.slots[usize::from(self.tail)].next = head;
        }
        self.tail = last;
    }

    /// Takes back the buffer that starts at `id`, and frees its entries. `None` if the buffer is not in flight or has
    /// fewer than `len` writable bytes: [`refusal`](Self::refusal) returns which.
    ///
    /// `chained` says that the buffer has one entry for each ring slot instead of a single one.
    #[inline]
    pub(super) fn give_back(&mut self, id: u32, len: u32, chained: bool) -> Option<Returned<T>> {
        let slot = self.slots.get_mut(usize::try_from(id).ok()?)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the size of the queue"
        )]
        let head = id as u16;
        // Tested before the data is taken: otherwise the compiler would load, clear and compare the data.
        if slot.data.is_none() || len > slot.writable {
            return None;
        }
        let (data, count) = (slot.data.take()?, slot.count);
        let mut last = head;
        if chained {
            for _ in 1..count {
                last = self.next(last);
            }
        }
        self.link(head, last);
        Some(Returned { data, count })
    }

    /// The reason why [`give_back`](Self::give_back) did not take a buffer back.
    #[cold]
    pub(super) fn refusal(&self, id: u32, len: u32) -> QueueError {
        match self.in_flight(id) {
            Ok(writable) => QueueError::LengthPastBuffer { id, len, writable },
            Err(error) => error,
        }
    }

    #[cold]
    fn out_of_range(&self, id: u32) -> QueueError {
        let size = self.size();
        QueueError::IdOutOfRange { id, size }
    }

    /// The id of the oldest buffer in flight, provided that all buffers so far came back in order.
    pub(super) fn oldest(&self) -> u16 {
        let next = usize::from(self.tail) + 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the size of the queue"
        )]
        let oldest = (next % self.slots.len()) as u16;
        oldest
    }

    /// The writable bytes of the buffer `oldest`, which a batch up to `last` skips. Fails unless both buffers are in
    /// flight.
    pub(super) fn skipped(&self, oldest: u32, last: u32) -> Result<u32, QueueError> {
        // `last` is checked before any buffer of its batch is returned.
        self.in_flight(last)?;
        self.in_flight(oldest)
    }

    fn in_flight(&self, id: u32) -> Result<u32, QueueError> {
        let slot = usize::try_from(id).ok().and_then(|i| self.slots.get(i));
        let Some(slot) = slot else {
            return Err(self.out_of_range(id));
        };
        if slot.data.is_none() {
            return Err(QueueError::NotInFlight { id });
        }
        Ok(slot.writable)
    }

    /// The ids and data of the buffers in flight. If all buffers so far came back in order, the oldest is first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u16, &T)> {
        let (oldest, size) = (self.oldest(), self.size());
        let ids = (oldest..size).chain(0..oldest);
        ids.filter_map(|id| Some((id, self.slots[usize::from(id)].data.as_ref()?)))
    }

    #[inline]
    pub(super) fn size(&self) -> u16 {
        u16::try_from(self.slots.len()).unwrap_or(u16::MAX)
    }

    /// The buffers in flight, and the entries of each buffer followed by the free list.
    pub(super) fn save(&self, ring: RingKind) -> (Vec<BufferState>, Vec<u16>) {
        let (mut buffers, mut entries) = (Vec::new(), Vec::new());
        for (id, _) in self.all() {
            let slot = &self.slots[usize::from(id)];
            buffers.push(BufferState {
                id,
                slots: slot.count,
                writable: slot.writable,
            });
            let chain = std::iter::successors(Some(id), |&entry| Some(self.next(entry)));
            entries.extend(chain.take(ring.entries(slot.count)));
        }
        let some = |entry: u16| (entry != NONE).then_some(entry);
        let free = std::iter::successors(some(self.first), |&entry| some(self.next(entry)));
        entries.extend(free);
        (buffers, entries)
    }

    /// Restores what [`save`](Self::save) returned, with the data of each buffer. The caller has checked the values.
    /// Fails with the id of a buffer if it has no data.
    pub(super) fn restore(
        ring: RingKind,
        buffers: &[BufferState],
        entries: &[u16],
        mut data: impl FnMut(u16) -> Option<T>,
    ) -> Result<Self, u16> {
        let slot = |_| Slot {
            data: None,
            writable: 0,
            count: 0,
            next: NONE,
        };
        let mut slots: Box<[Slot<T>]> = entries.iter().map(slot).collect();
        let link = |slots: &mut [Slot<T>], list: &[u16]| {
            for (&entry, &next) in list.iter().zip(list.iter().skip(1)) {
                slots[usize::from(entry)].next = next;
            }
        };
        let mut rest = entries;
        for buffer in buffers {
            let (chain, after) = rest.split_at(ring.entries(buffer.slots));
            link(&mut slots, chain);
            let slot = &mut slots[usize::from(buffer.id)];
            slot.data = Some(data(buffer.id).ok_or(buffer.id)?);
            (slot.writable, slot.count) = (buffer.writable, buffer.slots);
            rest = after;
        }
        link(&mut slots, rest);
        let mut slots = Self {
            slots,
            first: rest.first().copied().unwrap_or(NONE),
            tail: rest.last().copied().unwrap_or(NONE),
        };
        if let (NONE, Some(oldest)) = (slots.tail, buffers.first()) {
            // No entry is free: the entry that an in-order queue gave back last is the one before the oldest buffer.
            slots.tail = oldest.id.checked_sub(1).unwrap_or(slots.size() - 1);
        }
        Ok(slots)
    }

    /// Takes the data of any buffer in flight, for a queue that is no longer used.
    pub(super) fn detach(&mut self) -> Option<T> {
        self.slots.iter_mut().find_map(|slot| slot.data.take())
    }
}

#[cfg(test)]
#[path = "slots_test.rs"]
mod tests;
