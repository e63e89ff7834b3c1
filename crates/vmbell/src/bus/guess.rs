//! A reader's cache of the ranges that it found last.
//!
//! A guest accesses few of its devices often, so each reader remembers, by a hash of the address in
//! units of a usual range's length, the index of the range that answered. It is only a guess: ranges
//! do not overlap, so one comparison with the range shows whether the guess is right, whatever has changed on
//! the bus since.

/// Slots for each range, so that few addresses in use share a slot.
const SLOTS_PER_RANGE: usize = 4;
const MIN_SLOTS: usize = 256;
const MAX_SLOTS: usize = 1 << 16;

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Indexes of ranges, by a hash of the unit of addresses.
#[derive(Debug)]
pub(super) struct Guesses {
    /// Their number is a power of two.
    slots: Vec<u32>,
}

impl Guesses {
    pub(super) fn new() -> Self {
        let slots = vec![0; MIN_SLOTS];
        Self { slots }
    }

    #[inline]
    pub(super) fn get(&self, unit: u64) -> usize {
        match self.slots.get(self.slot(unit)) {
            Some(guess) => *guess as usize,
            None => 0,
        }
    }

    /// Remembers that range `index` of `ranges` answered in a unit.
    pub(super) fn set(&mut self, unit: u64, index: usize, ranges: usize) {
        let wanted = (ranges * SLOTS_PER_RANGE).clamp(MIN_SLOTS, MAX_SLOTS);
        if self.slots.len() < wanted {
            self.slots = vec![0; wanted.next_power_of_two()];
        }
        let slot = self.slot(unit);
        if let (Some(slot), Ok(index)) = (self.slots.get_mut(slot), u32::try_from(index)) {
            *slot = index;
        }
    }

    #[inline]
    fn slot(&self, unit: u64) -> usize {
        // The top bits of the product depend on all bits of the unit.
        let hash = (unit.wrapping_mul(SPREAD) >> 48) as usize;
        hash & (self.slots.len() - 1)
    }
}
