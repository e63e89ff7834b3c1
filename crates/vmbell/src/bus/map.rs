//! The sorted ranges of one snapshot of the bus.

use std::{fmt, hint::select_unpredictable, sync::Arc};

use super::{BusDevice, BusError, BusRange};

/// A device and its range.
#[derive(Clone)]
struct Entry {
    range: BusRange,
    device: Arc<dyn BusDevice>,
}

/// Ranges that do not overlap, sorted by address.
#[derive(Clone, Default)]
pub(super) struct Map {
    /// The ranges' first addresses, in their own array so that a search touches few cache lines. It is
    /// padded to a power of two with the last address of the space.
    starts: Vec<u64>,
    entries: Vec<Entry>,
    /// Base-2 logarithm of a typical range's length: the unit in which guesses are kept.
    granule: u32,
}

impl Map {
    /// Finds the device whose range contains all `len` bytes at `address`, and their offset in the range.
    #[inline]
    pub(super) fn find(
        &self,
        guesses: &mut Guesses,
        address: u64,
        len: usize,
    ) -> Option<(&dyn BusDevice, u64)> {
        let last = address.checked_add((len as u64).checked_sub(1)?)?;
        let unit = address >> self.granule;
        let guess = guesses.get(unit);
        // Guests may often access holes as well. The guessed range and the next one show that an address between them
        // is in a hole, without a search.
        match self.entries.get(guess) {
            Some(Entry { range, device }) if range.first() <= address => {
                if last <= range.last() {
                    return Some((&**device, address - range.first()));
                }
                let next = self.starts.get(guess + 1);
                if next.is_none_or(|next| address < *next) {
                    return None;
                }
            }
            _ if guess == 0 => return None,
            _ => {}
        }
        self.search(guesses, unit, address, last)
    }

    /// Does the same as [`find`](Self::find) after a wrong guess, and notes the right index.
    #[inline(never)]
    fn search(
        &self,
        guesses: &mut Guesses,
        unit: u64,
        address: u64,
        last: u64,
    ) -> Option<(&dyn BusDevice, u64)> {
        let index = self.candidate(address);
        guesses.set(unit, index, self.entries.len());
        let Entry { range, device } = self.entries.get(index)?;
        let inside = (range.first() <= address) & (last <= range.last());
        inside.then(|| (&**device, address - range.first()))
    }

    /// Finds the index of the last range that starts at or below `address`, or of the first range.
    ///
    /// A binary search without branches: the processor would mispredict them, because either half is equally likely.
    #[inline]
    fn candidate(&self, address: u64) -> usize {
        let starts = &self.starts[..];
        if starts.is_empty() {
            return 0;
        }
        let (mut base, mut step) = (0, starts.len() / 2);
        while step > 0 {
            // The mask changes nothing, but shows the compiler that the index is in bounds.
            let middle = (base + step) & (starts.len() - 1);
            base = select_unpredictable(starts[middle] <= address, middle, base);
            step /= 2;
        }
        // A search for the last address of the space finds the padding after the last range.
        base.min(self.entries.len() - 1)
    }

    /// Derives `starts` and `granule` from the entries.
    fn index(&mut self) {
        let count = self.entries.len();
        self.starts.clear();
        let starts = self.entries.iter().map(|entry| entry.range.first());
        self.starts.extend(starts);
        if count > 0 {
            self.starts.resize(count.next_power_of_two(), u64::MAX);
        }
        let mut lengths: Vec<u32> = self.ranges().map(BusRange::len_log2).collect();
        if let Some(middle) = count.checked_sub(1).map(|last| last / 2) {
            self.granule = *lengths.select_nth_unstable(middle).1;
        }
    }

    pub(super) fn insert(
        &mut self,
        range: BusRange,
        device: Arc<dyn BusDevice>,
    ) -> Result<(), BusError> {
        let entries = &self.entries;
        let index = entries.partition_point(|entry| entry.range.first() <= range.first());
        let neighbours = self.entries[index.saturating_sub(1)..].iter().take(2);
        for &Entry {
            range: existing, ..
        } in neighbours
        {
            if existing.overlaps(range) {
                let new = range;
                return Err(BusError::Overlap { new, existing });
            }
        }
        self.entries.insert(index, Entry { range, device });
        self.index();
        Ok(())
    }

    pub(super) fn remove(&mut self, range: BusRange) -> Result<Arc<dyn BusDevice>, BusError> {
        let same = |entry: &Entry| entry.range == range;
        let index = self.entries.iter().position(same);
        let index = index.ok_or(BusError::NotFound { range })?;
        let device = self.entries.remove(index).device;
        self.index();
        Ok(device)
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = BusRange> + '_ {
        self.entries.iter().map(|entry| entry.range)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

/// Slots per range: enough that few of the addresses in use share a slot.
const SLOTS_PER_RANGE: usize = 4;
const MIN_SLOTS: usize = 256;
const MAX_SLOTS: usize = 1 << 16;

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A reader's cache of the ranges that it found last: it maps a hash of the address, in units of a typical range's
/// length, to a range's index.
///
/// A guest accesses only a few of its devices often. An index is only a guess: ranges do not overlap, so one comparison
/// with the range shows whether the guess is still right after a change to the bus.
#[derive(Debug)]
pub(super) struct Guesses {
    /// The number of slots is a power of two.
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

    /// Remembers that range `index` of `ranges` answered an access in this unit.
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

#[cfg(test)]
#[path = "map_test.rs"]
mod tests;
