//! The lookup of a bus, which each vCPU thread does through a reader of its own.

use super::{guess::Guesses, map::Map};
use crate::quiesce::SnapshotReader;

/// One thread's reader of a [`Bus`](super::Bus).
///
/// While it is not [idle](Self::idle), [`Bus::synchronize`](super::Bus::synchronize) waits for its next access, and a
/// device that was removed from the bus stays in memory. The access itself frees nothing: the next change of the bus
/// after it does, or `synchronize`.
#[derive(Debug)]
pub struct BusReader {
    reader: SnapshotReader<Map>,
    guesses: Guesses,
}

impl BusReader {
    pub(super) fn new(mut reader: SnapshotReader<Map>) -> Self {
        reader.busy();
        let guesses = Guesses::new();
        Self { reader, guesses }
    }

    /// Reads `data.len()` bytes at `address`; false if no device answers all of them.
    #[inline]
    pub fn read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let map = self.reader.read();
        let found = map.find(&mut self.guesses, address, data.len());
        if let Some((device, offset)) = found {
            device.read(offset, data);
        }
        found.is_some()
    }

    /// Writes `data` at `address`; false if no device answers all of it.
    #[inline]
    pub fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let map = self.reader.read();
        let found = map.find(&mut self.guesses, address, data.len());
        if let Some((device, offset)) = found {
            device.write(offset, data);
        }
        found.is_some()
    }

    /// Runs `wait`, in which this thread accesses no device: it runs the guest, for example.
    pub fn idle<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.reader.idle();
        let result = wait();
        self.reader.busy();
        result
    }
}
