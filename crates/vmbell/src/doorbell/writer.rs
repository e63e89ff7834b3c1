//! Registration and removal of doorbells: checks the rules, then changes the table. A removal has two halves. Between
//! them, the caller waits until all lookups that began earlier have ended.

use vmbell_core::table::{MAX_ITEMS, MAX_SIGNAL, PAYLOAD, Table};

use super::{
    DoorbellError, IoEventAddress, Pattern, RegisterError, Sharing,
    entries::{DoorbellChange, Entries, Rest, Unlinked},
    registry::Registry,
};
use crate::eventfd::EventId;

/// A registration that was taken out of the table, and its signal number, which readers may still use.
#[must_use]
#[derive(Debug)]
pub struct Removal {
    signal: u32,
    unlinked: Unlinked,
}

/// The registered doorbells of one guest, and the only writer of the table in which vCPU threads look writes up. Each
/// call must get the same table. It is initially empty and has no other writer.
#[derive(Debug)]
pub struct TableWriter {
    registry: Registry,
    entries: Entries,
}

impl TableWriter {
    /// No doorbells. A group takes at most `max_items`, and never more than [`MAX_ITEMS`].
    pub fn new(max_items: u32) -> Self {
        let most = u32::try_from(MAX_ITEMS).unwrap_or(u32::MAX);
        Self {
            registry: Registry::new(max_items.min(most)),
            entries: Entries::new(),
        }
    }

    /// Makes writes that match signal `event`.
    ///
    /// `signal` makes the number that a lookup returns, with the flag [`PAYLOAD`] if the doorbell has a payload. It is
    /// called after all other checks have passed; if it fails, nothing has changed.
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
        let change = DoorbellChange {
            address,
            pattern,
            values: &values,
        };
        self.entries.check(table, &change)?;
        let signal = signal().map_err(RegisterError::Signal)?;
        if signal & !PAYLOAD > MAX_SIGNAL {
            let limit = MAX_SIGNAL;
            return Err(DoorbellError::Signal { signal, limit }.into());
        }
        self.registry
            .insert(event, address, pattern, sharing, signal);
        self.entries.add(table, &change, signal);
        Ok(())
    }

    /// Does the first half of a removal: takes the registration of `event` with this address and pattern out of the
    /// table. The caller then waits for a grace period that begins after this call, and may make other changes
    /// meanwhile.
    pub fn unlink(
        &mut self,
        table: &Table,
        event: EventId,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<Removal, DoorbellError> {
        let signal = self.registry.remove(event, address, pattern)?;
        let values = self.listed_values(address, pattern);
        let change = DoorbellChange {
            address,
            pattern,
            values: &values,
        };
        let rest = Rest {
            same: self.registry.count(address, pattern) > 0,
            matches: self.registry.values(address, pattern.len).next().is_some(),
        };
        let unlinked = self.entries.remove(table, &change, signal, rest);
        Ok(Removal { signal, unlinked })
    }

    /// Does the second half, after the grace period. Returns the signal number, which no reader uses any more.
    pub fn finish(&mut self, removal: Removal) -> u32 {
        self.entries.recycle(removal.unlinked);
        removal.signal
    }

    /// Returns the datamatch values at the address and length of a wildcard, because their signal lists include the
    /// wildcards. Empty if the pattern is not a wildcard.
    fn listed_values(&self, address: IoEventAddress, pattern: Pattern) -> Vec<u64> {
        match pattern.value {
            None => self.registry.values(address, pattern.len).collect(),
            Some(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "testing.rs"]
mod testing;

#[cfg(test)]
#[path = "writer_test.rs"]
mod tests;

// The tests fill a whole table, and the table is smaller under Miri.
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
