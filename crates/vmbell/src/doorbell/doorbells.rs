//! Registration and removal of doorbells: checks the rules, changes the table, and waits for readers.

use stub::table::{MAX_ITEMS, MAX_SIGNAL, Table};

use super::{
    DoorbellError, EventId, IoEventAddress, Pattern, RegisterError, Sharing,
    registry::Registry,
    table::{Change, Rest, Unlinked, Writer},
};

/// Waits for a grace period of the table's readers.
pub trait Barrier {
    /// Returns when every lookup that may have begun before the call has ended, its signals included.
    fn wait(&self);
}

/// The registered doorbells, and the only writer of the table in which vCPU threads look writes up.
#[derive(Debug)]
pub struct Doorbells<'t> {
    table: &'t Table,
    state: DoorbellState,
}

impl<'t> Doorbells<'t> {
    /// Takes an empty table, which nobody else may write from here on.
    ///
    /// A group takes at most `max_items`, and never more than [`MAX_ITEMS`].
    pub fn new(table: &'t Table, max_items: u32) -> Self {
        let state = DoorbellState::new(max_items);
        Self { table, state }
    }

    /// The table.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// Makes writes that match signal `event`.
    ///
    /// `signal` makes the number that a lookup returns. It is called after all other checks have passed; if it
    /// fails, nothing has changed.
    pub fn register<E>(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        sharing: Sharing,
        signal: impl FnOnce() -> Result<u32, E>,
    ) -> Result<(), RegisterError<E>> {
        let pattern = pattern.into();
        self.state
            .register(self.table, event, address, pattern, sharing, signal)
    }

    /// Removes the registration of `event` with the same address and pattern.
    ///
    /// After the return, no reader uses the signal number that it returns. It waits for `barrier` once, and not at
    /// all if there was no such registration.
    pub fn unregister(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        barrier: &dyn Barrier,
    ) -> Result<u32, DoorbellError> {
        self.state
            .unregister(self.table, event, address, pattern.into(), barrier)
    }
}

/// A registration that was taken out of the table, and its signal number, which readers may still use.
#[must_use]
#[derive(Debug)]
pub(crate) struct Removal {
    signal: u32,
    unlinked: Unlinked,
}

/// [`Doorbells`] without the reference to the table, for a struct that owns both.
#[derive(Debug)]
pub struct DoorbellState {
    registry: Registry,
    writer: Writer,
}

impl DoorbellState {
    /// No doorbells, with at most `max_items` in a group.
    pub fn new(max_items: u32) -> Self {
        let most = u32::try_from(MAX_ITEMS).unwrap_or(u32::MAX);
        Self {
            registry: Registry::new(max_items.min(most)),
            writer: Writer::new(),
        }
    }

    /// As [`Doorbells::register`], in `table`, which is the same in each call.
    pub fn register<E>(
        &mut self,
        table: &Table,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
        sharing: Sharing,
        signal: impl FnOnce() -> Result<u32, E>,
    ) -> Result<(), RegisterError<E>> {
        pattern.check(address)?;
        self.registry.check(event, address, pattern, sharing)?;
        let values = self.listed_values(address, pattern);
        let change = Change {
            address,
            pattern,
            values: &values,
        };
        self.writer.check(table, &change)?;
        let signal = signal().map_err(RegisterError::Signal)?;
        if signal > MAX_SIGNAL {
            let limit = MAX_SIGNAL;
            return Err(DoorbellError::Signal { signal, limit }.into());
        }
        self.registry
            .insert(event, address, pattern, sharing, signal);
        self.writer.add(table, &change, signal);
        Ok(())
    }

    /// As [`Doorbells::unregister`], in the table of the registrations.
    pub fn unregister(
        &mut self,
        table: &Table,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
        barrier: &dyn Barrier,
    ) -> Result<u32, DoorbellError> {
        let removal = self.unlink(table, event, address, pattern)?;
        barrier.wait();
        Ok(self.finish(removal))
    }

    /// The first half of a removal: takes the registration out of the table. The caller waits for a grace period that
    /// begins after this, and may make other changes meanwhile.
    pub(crate) fn unlink(
        &mut self,
        table: &Table,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<Removal, DoorbellError> {
        let signal = self.registry.remove(event, address, pattern)?;
        let values = self.listed_values(address, pattern);
        let change = Change {
            address,
            pattern,
            values: &values,
        };
        let rest = Rest {
            same: self.registry.count(address, pattern) > 0,
            matches: self.registry.values(address, pattern.len).next().is_some(),
        };
        let unlinked = self.writer.remove(table, &change, signal, rest);
        Ok(Removal { signal, unlinked })
    }

    /// The second half, after the grace period. Returns the signal number, which no reader uses any more.
    pub(crate) fn finish(&mut self, removal: Removal) -> u32 {
        self.writer.recycle(removal.unlinked);
        removal.signal
    }

    /// If the pattern is a wildcard: the datamatch values at its address and length, whose signal lists have the
    /// wildcards, too.
    fn listed_values(&self, address: IoEventAddress, pattern: Pattern) -> Vec<u64> {
        match pattern.value {
            None => self.registry.values(address, pattern.len).collect(),
            Some(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "doorbells_test.rs"]
mod tests;

// The tests fill a whole table, which is smaller under Miri.
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "limits_test.rs"]
mod limits;

#[cfg(test)]
#[cfg(not(loom))]
#[path = "lookup_test.rs"]
mod lookup;

#[cfg(test)]
#[cfg(not(loom))]
#[path = "model_test.rs"]
mod model;

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;
