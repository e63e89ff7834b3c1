//! A cursor that moves forward on a ring of descriptors, without a bounds check for each access.

#![allow(unsafe_code)]

use super::words::Words;
use crate::descriptor::Descriptor;

/// A position on a ring of descriptors: laps in bits 62:16, a slot in bits 15:0.
#[derive(Debug)]
pub(crate) struct Cursor<M> {
    words: Words<Descriptor, M>,
    /// The slot is below the number of `words`.
    position: u64,
    /// The value of the bits `flip` in a matching descriptor's second word; includes [`BLOCKED`] if no descriptor may
    /// match.
    mark: u64,
    /// The bits of the mark that change with every lap.
    flip: u64,
}

impl<M: Clone> Cursor<M> {
    /// Starts at position 0; the bits `flip` of `mark` flip with every lap. The ring is not empty.
    pub(crate) fn start(words: &Words<Descriptor, M>, mark: u64, flip: u64) -> Self {
        assert!(!words.all().is_empty(), "a ring has a descriptor");
        Self {
            words: words.clone(),
            position: 0,
            mark,
            flip,
        }
    }
}

impl<M> Cursor<M> {
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// The descriptor at this position.
    #[inline]
    pub(crate) fn get(&self) -> &Descriptor {
        let slot = slot(self.position);
        debug_assert!(slot < self.words.all().len());
        // SAFETY: the slot is always below the number of words: `start` and each method that moves the cursor ensure
        // it.
        unsafe { self.words.all().get_unchecked(slot) }
    }

    /// Moves `count` slots forward; `count` is at most the size of the ring.
    #[inline]
    pub(crate) fn advance(&mut self, count: u16) {
        let next = self.position + u64::from(count);
        if slot(next) >= self.words.all().len() {
            return self.start_lap(next);
        }
        self.position = next;
    }

    #[cold]
    #[inline(never)]
    fn start_lap(&mut self, next: u64) {
        self.position = self.in_next_lap(next);
        self.mark ^= self.flip;
    }

    /// Calls `visit` with the descriptor here and moves `count` slots forward. If that would go past `limit`, returns
    /// false and does nothing.
    #[inline]
    pub(crate) fn pass(&mut self, count: u16, limit: u64, visit: impl FnOnce(&Descriptor)) -> bool {
        let next = self.position + u64::from(count);
        if slot(next) >= self.words.all().len() {
            let Some(next) = self.in_next_lap_up_to(next, limit) else {
                return false;
            };
            visit(self.get());
            self.position = next;
            self.mark ^= self.flip;
            return true;
        }
        if next > limit {
            return false;
        }
        visit(self.get());
        self.position = next;
        true
    }

    /// Like [`in_next_lap`](Self::in_next_lap), or `None` if the result is past `limit` or `next` is past the end of
    /// the next lap.
    #[cold]
    #[inline(never)]
    fn in_next_lap_up_to(&self, next: u64, limit: u64) -> Option<u64> {
        if slot(next) >= 2 * self.words.all().len() {
            return None;
        }
        Some(self.in_next_lap(next)).filter(|&next| next <= limit)
    }

    /// Converts a slot past the end of the ring to the position in the next lap.
    fn in_next_lap(&self, next: u64) -> u64 {
        // The remainder is a subtraction of the ring's size, unless a caller of `advance` breaks its rule.
        let slot = slot(next) % self.words.all().len();
        (next & !SLOT) + LAP + slot as u64
    }

    /// Sets a mark that no descriptor has, until [`set`](Self::set) is called.
    pub(crate) fn block(&mut self) {
        self.mark |= BLOCKED;
    }

    /// Moves to any position. A slot past the end of the ring wraps around.
    pub(crate) fn set(&mut self, position: u64) {
        if (position ^ self.position) & LAP != 0 {
            self.mark ^= self.flip;
        }
        self.mark &= !BLOCKED;
        let slot = slot(position) % self.words.all().len();
        self.position = (position & !SLOT) + slot as u64;
    }
}

/// A bit of the length field, so no mark has it.
const BLOCKED: u64 = 1;
/// The bits of a position that are its slot.
const SLOT: u64 = 0xffff;
/// One lap in a position.
const LAP: u64 = SLOT + 1;

#[inline]
const fn slot(position: u64) -> usize {
    (position & SLOT) as usize
}
