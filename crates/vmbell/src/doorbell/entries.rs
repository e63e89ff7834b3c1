//! The entries of the [table](vmbell_core::table): what each registration and removal changes, and in which order.
//!
//! A reader may be anywhere in the table during a change, so the contents are stored first, and then, with release, the
//! word that makes them reachable. What a removal unlinks is reused only after [`recycle`](Entries::recycle), which the
//! caller calls after a grace period; the caller may change the table in between. [`check`](Entries::check) makes sure
//! before the first change that there are enough free pieces. Only the monitor can write to the table: it is trusted.

use vmbell_core::table::{
    CELLS, CHUNKS, MATCH, MAX_ADDRESSES, MAX_MATCHES, OVERFLOWS, Table, cell_index,
};

use super::chain::{AddressSlot, MatchSlot, SlotPosition};
use super::storage::{self, Arena};
use super::{DoorbellError, IoEventAddress, Pattern};

/// A doorbell to add or remove.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoorbellChange<'a> {
    pub(super) address: IoEventAddress,
    pub(super) pattern: Pattern,
    /// For a wildcard: the datamatch values at its address and length, whose signal lists include the wildcard.
    pub(super) values: &'a [u64],
}

impl DoorbellChange<'_> {
    /// The cells for the doorbell's length; all cells for length 0.
    fn cells(&self) -> std::ops::Range<usize> {
        match self.pattern.len {
            0 => 0..CELLS,
            _ => self.cell()..self.cell() + 1,
        }
    }

    /// The first cell for the doorbell's length.
    fn cell(&self) -> usize {
        match self.pattern.len {
            0 => 0,
            len => cell_index(len),
        }
    }

    fn slot<'t>(&self, table: &'t Table) -> Option<AddressSlot<'t>> {
        AddressSlot::find(table, self.address.kind(), self.address.value())
    }

    /// Finds the slot of a value at the address and length.
    fn match_slot<'t>(
        &self,
        table: &'t Table,
        slot: &AddressSlot<'t>,
        value: u64,
    ) -> Option<MatchSlot<'t>> {
        let key = (slot.cell_offset(table, self.cell()), value);
        MatchSlot::find(table, self.address.value(), key)
    }
}

/// Which doorbells remain after one is removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// Whether doorbells with the same pattern remain.
    pub(super) same: bool,
    /// Whether doorbells with a datamatch remain at the same address and length.
    pub(super) matches: bool,
}

/// What a removal has unlinked. Readers may still use it.
#[must_use]
#[derive(Debug)]
pub(super) struct Unlinked {
    address: Option<SlotPosition>,
    value: Option<SlotPosition>,
    address_overflows: Vec<usize>,
    match_overflows: Vec<usize>,
    chunks: Vec<usize>,
}

/// Changes a table, and keeps count of its pieces in use.
#[derive(Debug)]
pub(super) struct Entries {
    /// The number of addresses in the table, including those whose slots are held. Each overflow bucket in use has at
    /// least one of them, so there are enough buckets.
    addresses: usize,
    /// The number of values in the table, including those whose slots are held.
    matches: usize,
    /// The slots that are held. A slot is listed twice if it was used again for the same key and emptied again.
    held: Vec<SlotPosition>,
    address_overflows: Arena,
    match_overflows: Arena,
    chunks: Arena,
}

impl Entries {
    pub(super) const fn new() -> Self {
        Self {
            addresses: 0,
            matches: 0,
            held: Vec::new(),
            address_overflows: Arena::new(OVERFLOWS),
            match_overflows: Arena::new(OVERFLOWS),
            chunks: Arena::new(CHUNKS),
        }
    }

    /// Checks whether the table has room for the doorbell.
    pub(super) fn check(
        &self,
        table: &Table,
        change: &DoorbellChange<'_>,
    ) -> Result<(), DoorbellError> {
        let slot = change.slot(table);
        let slot = slot.as_ref();
        let more = usize::from(slot.is_none());
        room(self.addresses + more, MAX_ADDRESSES, "addresses")?;
        let wildcards = slot.map_or(0, |slot| slot.code(change.cell()));
        let code = |value| {
            let slot = slot.and_then(|slot| change.match_slot(table, slot, value));
            slot.map_or(0, |slot| slot.code())
        };
        let chunks = match change.pattern.value {
            None => {
                let codes = change.values.iter().map(|&value| code(value));
                let lists = codes.map(|code| storage::push_cost(table, code));
                storage::push_cost(table, wildcards) + lists.sum::<usize>()
            }
            Some(value) => match code(value) {
                0 => {
                    room(self.matches + 1, MAX_MATCHES, "values")?;
                    storage::copy_cost(table, wildcards)
                }
                code => storage::push_cost(table, code),
            },
        };
        let capacity = self.chunks.capacity();
        let used = capacity - self.chunks.available();
        room(used + chunks, capacity, "chunks of signal lists")
    }

    /// Adds a doorbell for which [`check`](Self::check) has found room.
    pub(super) fn add(&mut self, table: &Table, change: &DoorbellChange<'_>, signal: u32) {
        let slot = change.slot(table).unwrap_or_else(|| {
            let (kind, address) = (change.address.kind(), change.address.value());
            self.addresses += 1;
            let overflows = &mut self.address_overflows;
            AddressSlot::take(table, overflows, &self.held, kind, address)
        });
        match change.pattern.value {
            None => self.change_wildcard(table, &slot, change, signal, storage::push),
            Some(value) => self.add_match(table, &slot, change, value, signal),
        }
    }

    /// Adds a wildcard's signal by [`storage::push`], or removes it by [`storage::remove`], in its cells and in the
    /// signal lists of the values at its address and length.
    fn change_wildcard(
        &mut self,
        table: &Table,
        slot: &AddressSlot<'_>,
        change: &DoorbellChange<'_>,
        signal: u32,
        edit: fn(&Table, &mut Arena, u32, u32) -> u32,
    ) {
        for &value in change.values {
            if let Some(slot) = change.match_slot(table, slot, value) {
                slot.publish_code(edit(table, &mut self.chunks, slot.code(), signal));
            }
        }
        let code = slot.code(change.cell());
        let code = edit(table, &mut self.chunks, code, signal);
        for cell in change.cells() {
            slot.publish_cell(cell, code | slot.cell(cell) & MATCH);
        }
    }

    fn add_match(
        &mut self,
        table: &Table,
        slot: &AddressSlot<'_>,
        change: &DoorbellChange<'_>,
        value: u64,
        signal: u32,
    ) {
        if let Some(slot) = change.match_slot(table, slot, value) {
            slot.publish_code(storage::push(table, &mut self.chunks, slot.code(), signal));
            return;
        }
        // The value's list includes the wildcards, so that a reader needs only one list.
        let cell = change.cell();
        let code = storage::copy(table, &mut self.chunks, slot.code(cell));
        let code = storage::push(table, &mut self.chunks, code, signal);
        let (address, key) = (
            change.address.value(),
            (slot.cell_offset(table, cell), value),
        );
        let overflows = &mut self.match_overflows;
        MatchSlot::add(table, overflows, &self.held, address, key, code);
        self.matches += 1;
        slot.publish_cell(cell, slot.cell(cell) | MATCH);
    }

    /// Removes a doorbell. Readers may still use its signal number and the returned pieces for a grace period.
    pub(super) fn remove(
        &mut self,
        table: &Table,
        change: &DoorbellChange<'_>,
        signal: u32,
        rest: Rest,
    ) -> Unlinked {
        let (mut address, mut emptied) = (None, None);
        if let Some(slot) = change.slot(table) {
            match change.pattern.value {
                None => self.change_wildcard(table, &slot, change, signal, storage::remove),
                Some(value) => {
                    if let Some(slot) = change.match_slot(table, &slot, value) {
                        emptied = self.remove_match(table, &slot, signal, rest.same);
                    }
                    if !rest.matches {
                        let cell = change.cell();
                        slot.publish_cell(cell, slot.cell(cell) & !MATCH);
                    }
                }
            }
            if !slot.is_used() {
                slot.tidy(table, &mut self.address_overflows);
                address = Some(slot.place(table));
            }
        }
        self.held.extend(address.into_iter().chain(emptied));
        Unlinked {
            address,
            value: emptied,
            address_overflows: self.address_overflows.take_retired(),
            match_overflows: self.match_overflows.take_retired(),
            chunks: self.chunks.take_retired(),
        }
    }

    /// Removes a value's signal; returns the value's slot if it is empty now.
    fn remove_match(
        &mut self,
        table: &Table,
        slot: &MatchSlot<'_>,
        signal: u32,
        others: bool,
    ) -> Option<SlotPosition> {
        if others {
            slot.publish_code(storage::remove(
                table,
                &mut self.chunks,
                slot.code(),
                signal,
            ));
            return None;
        }
        // From here on, writes of this value get the wildcards' code.
        storage::retire(table, &mut self.chunks, slot.code());
        slot.empty();
        slot.tidy(table, &mut self.match_overflows);
        Some(slot.place(table))
    }

    /// Frees for reuse what a removal has unlinked, after the caller has waited for a grace period.
    pub(super) fn recycle(&mut self, unlinked: Unlinked) {
        self.addresses -= usize::from(unlinked.address.is_some());
        self.matches -= usize::from(unlinked.value.is_some());
        for place in unlinked.address.into_iter().chain(unlinked.value) {
            if let Some(index) = self.held.iter().position(|other| *other == place) {
                self.held.swap_remove(index);
            }
        }
        self.address_overflows.recycle(unlinked.address_overflows);
        self.match_overflows.recycle(unlinked.match_overflows);
        self.chunks.recycle(unlinked.chunks);
    }
}

fn room(wanted: usize, capacity: usize, what: &'static str) -> Result<(), DoorbellError> {
    if wanted > capacity {
        return Err(DoorbellError::Full { what, capacity });
    }
    Ok(())
}
