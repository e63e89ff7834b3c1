//! A bus: any thread adds and removes devices, and each vCPU thread looks addresses up through its own reader.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    BusDevice, BusError, BusRange,
    map::{Guesses, Map},
};
use crate::quiesce::{Snapshot, SnapshotReader};

/// An address space with its devices.
///
/// Changes take a lock, wait for no reader, and may be made from inside a device's handler. A handler
/// that has begun runs to its end even if its device is removed meanwhile;
/// [`synchronize`](Self::synchronize) waits for that end.
pub struct Bus {
    snapshot: Snapshot<Map>,
    map: Mutex<Map>,
}

impl Bus {
    /// A bus without devices.
    pub fn new() -> Self {
        Self {
            snapshot: Snapshot::new(Map::default()),
            map: Mutex::default(),
        }
    }

    /// Adds `device`, which answers `range`. An error if the range overlaps another.
    pub fn insert(&self, range: BusRange, device: Arc<dyn BusDevice>) -> Result<(), BusError> {
        self.change(|map| map.insert(range, device))
    }

    /// Removes exactly `range`, and returns its device.
    pub fn remove(&self, range: BusRange) -> Result<Arc<dyn BusDevice>, BusError> {
        self.change(|map| map.remove(range))
    }

    /// Waits until no handler runs that a reader found before the call.
    ///
    /// On a thread that is inside a handler, it never returns.
    pub fn synchronize(&self) {
        self.snapshot.domain().synchronize();
    }

    /// A new reader for one thread.
    pub fn reader(&self) -> BusReader {
        BusReader::new(self.snapshot.reader())
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Map) -> Result<T, BusError>,
    ) -> Result<T, BusError> {
        let changed = {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = change(&mut map)?;
            self.snapshot.replace(map.clone());
            changed
        };
        // After the lock is released: a device that is dropped may change the bus in turn.
        self.snapshot.domain().reclaim();
        Ok(changed)
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Bus").field(&*map).finish()
    }
}

/// One thread's reader of a [`Bus`].
///
/// While it is not [idle](Self::idle), [`Bus::synchronize`] waits for its next access, and a
/// device that was removed from the bus stays in memory. The access itself frees nothing: the next change of the bus
/// after it does, or `synchronize`.
#[derive(Debug)]
pub struct BusReader {
    reader: SnapshotReader<Map>,
    guesses: Guesses,
}

impl BusReader {
    fn new(mut reader: SnapshotReader<Map>) -> Self {
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

#[cfg(test)]
#[cfg(not(loom))]
#[path = "shared_test.rs"]
mod tests;
