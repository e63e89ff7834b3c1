//! A table and its writer, as single-threaded tests use them: no lookup is under way while it changes.

use super::*;

/// Doorbells in a table.
pub struct Doorbells<'t> {
    pub table: &'t Table,
    pub writer: TableWriter,
}

impl<'t> Doorbells<'t> {
    /// Takes an empty table.
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

    /// Removes a doorbell and waits for no reader.
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
