//! A table and its writer, for single-threaded tests: no lookup is under way during a change.

use super::*;

/// Doorbells in a table.
pub struct Doorbells<'t> {
    pub table: &'t Table,
    pub writer: TableWriter,
}

impl<'t> Doorbells<'t> {
    /// Wraps an empty table.
    pub fn new(table: &'t Table, max_items: u32) -> Self {
        let writer = TableWriter::new(max_items);
        Self { table, writer }
    }

    pub fn register<E>(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        sharing: Sharing,
        signal: impl FnOnce() -> Result<u32, E>,
    ) -> Result<(), RegisterError<E>> {
        self.writer
            .register(self.table, event, address, pattern.into(), sharing, signal)
    }

    /// Removes a doorbell without waiting for readers.
    pub fn unregister(
        &mut self,
        event: EventId,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
    ) -> Result<u32, DoorbellError> {
        let removal = self
            .writer
            .unlink(self.table, event, address, pattern.into())?;
        Ok(self.writer.finish(removal))
    }
}
