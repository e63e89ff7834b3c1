//! Slots and chains of buckets of the [table](vmbell_core::table): finds, fills and empties slots during lookups.
//!
//! The writer searches for a key as readers do, and puts it where they would look first: an unused slot that still has
//! the key's address must be reused, because it hides the slots after it. A slot that a removal has emptied is *held*
//! until the removal's grace period ends. It takes no other key until then, because a reader that has found the old key
//! may still load what belongs to it. Slots never move. An overflow bucket is linked after the last of its chain, and
//! unlinked when all its slots are unused. It keeps its own link, so that a reader that is on it gets to the next
//! bucket.

use vmbell_core::sync::AtomicU32;
use vmbell_core::table::{AddressBucket, Kind, MATCH, MatchBucket, Table};

use super::storage::{Arena, Word, index_word};

/// The position of a slot: the offset of its bucket's link in the table, and its index in the bucket.
pub(super) type SlotPosition = (u32, usize);

/// A bucket of one of the hash tables.
trait Bucket: Sized {
    /// The key of a slot.
    type Key: Copy;

    fn overflows(table: &Table) -> &[Self];
    fn link(&self) -> &AtomicU32;
    fn is_used(&self, slot: usize) -> bool;
    /// The slot in which a reader looks for `key`, and whether the slot has the key.
    fn seek(&self, key: Self::Key) -> (usize, bool);
    /// Stores the key in an unused slot. The slot remains unused.
    fn set_key(&self, slot: usize, key: Self::Key);
    /// Empties the bucket; no reader may be on it.
    fn clear(&self);

    /// An unused slot for a key that this bucket does not have; `is_held` says whether a slot is held.
    fn free(&self, key: Self::Key, is_held: impl Fn(usize) -> bool) -> Option<usize> {
        let (seek, _) = self.seek(key);
        let is_free = |slot| !self.is_used(slot) && !is_held(slot);
        // A key in the first slot hides an equal one in the second: the slots must never hold equal keys.
        let hides = self.is_used(1) && self.hides(key);
        let first = is_free(0) && !hides;
        let second = is_free(1) && seek == 1;
        match (first, second) {
            (true, _) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        }
    }

    /// Whether `key` in the first slot would hide the second slot from readers, which happens only if readers find a
    /// slot by a part of the key. No slot of this bucket has `key`.
    fn hides(&self, _key: Self::Key) -> bool {
        false
    }
}

impl Bucket for AddressBucket {
    type Key = u64;

    fn overflows(table: &Table) -> &[Self] {
        &table.address_overflows
    }

    fn link(&self) -> &AtomicU32 {
        &self.link
    }

    fn is_used(&self, slot: usize) -> bool {
        self.cells.iter().any(|cells| cells[slot].get() != 0)
    }

    fn seek(&self, address: u64) -> (usize, bool) {
        let slot = self.slot(address);
        (slot, self.addresses[slot].get() == address)
    }

    fn set_key(&self, slot: usize, address: u64) {
        self.addresses[slot].set(address);
    }

    fn clear(&self) {
        self.addresses.iter().for_each(|address| address.set(0));
        self.cells.iter().flatten().for_each(|cell| cell.set(0));
        self.link.set(0);
    }
}

impl Bucket for MatchBucket {
    /// The offset of the cell in the table, and the value.
    type Key = (u32, u64);

    fn overflows(table: &Table) -> &[Self] {
        &table.match_overflows
    }

    fn link(&self) -> &AtomicU32 {
        &self.link
    }

    fn is_used(&self, slot: usize) -> bool {
        self.cell_offsets[slot].get() != 0
    }

    fn seek(&self, (cell_offset, value): (u32, u64)) -> (usize, bool) {
        let slot = self.slot(value);
        let (values, offsets) = (self.values[slot].get(), self.cell_offsets[slot].get());
        (slot, (offsets, values) == (cell_offset, value))
    }

    fn set_key(&self, slot: usize, (_, value): (u32, u64)) {
        self.values[slot].set(value);
    }

    fn clear(&self) {
        self.values.iter().for_each(|value| value.set(0));
        self.cell_offsets.iter().for_each(|offset| offset.set(0));
        self.codes.iter().for_each(|code| code.set(0));
        self.link.set(0);
    }

    fn hides(&self, (_, value): (u32, u64)) -> bool {
        self.values[1].get() == value
    }
}

/// A slot, and the first bucket of its chain.
#[derive(Debug)]
struct Slot<'t, B> {
    first: &'t B,
    bucket: &'t B,
    index: usize,
}

impl<'t, B: Bucket> Slot<'t, B> {
    /// Finds the slot in which readers look for a key, whether the slot is in use or not.
    fn seek(table: &'t Table, first: &'t B, key: B::Key) -> Option<Self> {
        chain(table, first).find_map(|bucket| {
            let (index, is) = bucket.seek(key);
            is.then_some(Self {
                first,
                bucket,
                index,
            })
        })
    }

    /// Finds the slot in use that has a key.
    fn find(table: &'t Table, first: &'t B, key: B::Key) -> Option<Self> {
        Self::seek(table, first, key).filter(|slot| slot.bucket.is_used(slot.index))
    }

    /// Takes a slot for a key that is in no used slot, and stores the key. The chain grows if no slot is free.
    fn take(
        table: &'t Table,
        overflows: &mut Arena,
        held: &[SlotPosition],
        first: &'t B,
        key: B::Key,
    ) -> Self {
        if let Some(stale) = Self::seek(table, first, key) {
            return stale;
        }
        let free = chain(table, first).find_map(|bucket| {
            let is_held = |index| held.contains(&place(table, bucket, index));
            Some((bucket, bucket.free(key, is_held)?))
        });
        let (bucket, index) = free.unwrap_or_else(|| {
            let added = overflows.take();
            let bucket = &B::overflows(table)[added];
            bucket.clear();
            if let Some(last) = chain(table, first).last() {
                last.link().publish(index_word(added));
            }
            (bucket, 0)
        });
        bucket.set_key(index, key);
        Self {
            first,
            bucket,
            index,
        }
    }

    /// Unlinks the slot's bucket if all its slots are unused.
    fn tidy(&self, table: &'t Table, overflows: &mut Arena) {
        if (0..2).any(|slot| self.bucket.is_used(slot)) {
            return;
        }
        // The first bucket of a chain has no predecessor and stays.
        let before = chain(table, self.first).find(|bucket| {
            next(table, *bucket).is_some_and(|next| std::ptr::eq(next, self.bucket))
        });
        if let Some(before) = before {
            overflows.retire(before.link().get() as usize);
            before.link().publish(self.bucket.link().get());
        }
    }
}

fn place<B: Bucket>(table: &Table, bucket: &B, index: usize) -> SlotPosition {
    (table.offset(bucket.link()), index)
}

fn next<'t, B: Bucket>(table: &'t Table, bucket: &B) -> Option<&'t B> {
    match bucket.link().get() {
        0 => None,
        link => Some(&B::overflows(table)[link as usize]),
    }
}

fn chain<'t, B: Bucket>(table: &'t Table, first: &'t B) -> impl Iterator<Item = &'t B> {
    std::iter::successors(Some(first), |bucket| next(table, *bucket))
}

/// The slot of an address.
#[derive(Debug)]
pub(super) struct AddressSlot<'t>(Slot<'t, AddressBucket>);

impl<'t> AddressSlot<'t> {
    pub(super) fn find(table: &'t Table, kind: Kind, address: u64) -> Option<Self> {
        let first = table.first_address(kind, address);
        Slot::find(table, first, address).map(Self)
    }

    /// Takes a slot for an address that the table does not have. The slot is in use once a cell is published.
    pub(super) fn take(
        table: &'t Table,
        overflows: &mut Arena,
        held: &[SlotPosition],
        kind: Kind,
        address: u64,
    ) -> Self {
        let first = table.first_address(kind, address);
        Self(Slot::take(table, overflows, held, first, address))
    }

    pub(super) fn place(&self, table: &Table) -> SlotPosition {
        place(table, self.0.bucket, self.0.index)
    }

    fn word(&self, cell: usize) -> &'t AtomicU32 {
        &self.0.bucket.cells[cell][self.0.index]
    }

    pub(super) fn cell(&self, cell: usize) -> u32 {
        self.word(cell).get()
    }

    pub(super) fn code(&self, cell: usize) -> u32 {
        self.cell(cell) & !MATCH
    }

    pub(super) fn cell_offset(&self, table: &Table, cell: usize) -> u32 {
        table.offset(self.word(cell))
    }

    pub(super) fn publish_cell(&self, cell: usize, value: u32) {
        self.word(cell).publish(value);
    }

    pub(super) fn is_used(&self) -> bool {
        self.0.bucket.is_used(self.0.index)
    }

    pub(super) fn tidy(&self, table: &'t Table, overflows: &mut Arena) {
        self.0.tidy(table, overflows);
    }
}

/// The slot of a value; the slot is in use.
#[derive(Debug)]
pub(super) struct MatchSlot<'t>(Slot<'t, MatchBucket>);

impl<'t> MatchSlot<'t> {
    pub(super) fn find(table: &'t Table, address: u64, key: (u32, u64)) -> Option<Self> {
        let first = table.first_match(address, key.1);
        Slot::find(table, first, key).map(Self)
    }

    /// Adds a value that the table does not have, with its code.
    pub(super) fn add(
        table: &'t Table,
        overflows: &mut Arena,
        held: &[SlotPosition],
        address: u64,
        key: (u32, u64),
        code: u32,
    ) {
        let first = table.first_match(address, key.1);
        let Slot { bucket, index, .. } = Slot::take(table, overflows, held, first, key);
        bucket.codes[index].set(code);
        bucket.cell_offsets[index].publish(key.0);
    }

    pub(super) fn place(&self, table: &Table) -> SlotPosition {
        place(table, self.0.bucket, self.0.index)
    }

    pub(super) fn code(&self) -> u32 {
        self.0.bucket.codes[self.0.index].get()
    }

    pub(super) fn publish_code(&self, code: u32) {
        self.0.bucket.codes[self.0.index].publish(code);
    }

    /// Makes the slot unused. A reader that has found it may still load its code.
    pub(super) fn empty(&self) {
        self.0.bucket.cell_offsets[self.0.index].publish(0);
    }

    pub(super) fn tidy(&self, table: &'t Table, overflows: &mut Arena) {
        self.0.tidy(table, overflows);
    }
}
