//! A bus: any thread adds and removes devices, and each vCPU thread looks addresses up through its own reader.

use std::{
    fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    BusDevice, BusError, BusRange,
    map::{Guesses, Map},
};
use crate::quiesce::{Snapshot, SnapshotReader};
use crate::sync::Mutex;

/// How many replaced snapshots may wait for a handler to return before changes wait as well.
const WAITING: usize = 64;

/// How long a change waits if more than [`WAITING`] snapshots wait. If a handler hangs, for example on a disk that does
/// not answer, while the guest keeps moving its devices, one snapshot per `PATIENCE` is added instead of thousands.
const PATIENCE: Duration = if cfg!(test) {
    Duration::from_secs(60)
} else {
    Duration::from_secs(1)
};

/// How often a waiting change checks again.
const LOOK: Duration = Duration::from_millis(1);

/// An address space with its devices.
///
/// Changes take a lock, and a device's handler may also make them. A change does not wait for readers, unless 64
/// earlier snapshots already wait for a handler to return: then the change waits for at most one second. A handler that
/// has begun runs to its end even if its device is removed meanwhile; [`synchronize`](Self::synchronize) waits for
/// that.
pub struct Bus {
    snapshot: Snapshot<Map>,
    map: Mutex<Map>,
    /// Held by the one change that waits for a handler.
    patience: Mutex<()>,
}

impl Bus {
    /// A bus without devices.
    pub fn new() -> Self {
        Self {
            snapshot: Snapshot::new(Map::default()),
            map: Mutex::default(),
            patience: Mutex::default(),
        }
    }

    /// Adds `device`, which answers `range`. Fails if the range overlaps another.
    pub fn insert(&self, range: BusRange, device: Arc<dyn BusDevice>) -> Result<(), BusError> {
        self.change(|map| map.insert(range, device))
    }

    /// Removes exactly `range`, and returns its device, in which a handler may still run.
    pub fn remove(&self, range: BusRange) -> Result<Arc<dyn BusDevice>, BusError> {
        self.change(|map| map.remove(range))
    }

    /// Removes exactly `range`, and returns its device once none of its handlers runs any more.
    /// Must not be called in a handler.
    ///
    /// # Errors
    ///
    /// [`BusError::StillRuns`] if a handler still runs after `limit`. The device is then off the bus, and the bus drops
    /// it at its next change.
    pub fn remove_and_wait(
        &self,
        range: BusRange,
        limit: Duration,
    ) -> Result<Arc<dyn BusDevice>, BusError> {
        let device = self.remove(range)?;
        if self.snapshot.domain().synchronize_within(limit) {
            return Ok(device);
        }
        Err(BusError::StillRuns { range, limit })
    }

    /// Waits until every handler that a reader found before the call has returned.
    ///
    /// A handler must not call this: the call would never return.
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
            let mut map = self.map.lock();
            let changed = change(&mut map)?;
            self.snapshot.replace(map.clone());
            changed
        };
        // Called without the lock, because dropping a device may change the bus.
        if self.snapshot.domain().reclaim() > WAITING {
            self.wait_for_handlers();
        }
        Ok(changed)
    }

    /// Waits until fewer snapshots wait for a handler to return. If the caller is itself in a handler, the snapshots
    /// that are older than its section can still be freed.
    #[cold]
    fn wait_for_handlers(&self) {
        let _one = self.patience.lock();
        let begun = Instant::now();
        while self.snapshot.domain().reclaim() > WAITING && begun.elapsed() < PATIENCE {
            thread::sleep(LOOK);
        }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.map.lock();
        f.debug_tuple("Bus").field(&*map).finish()
    }
}

/// One thread's reader of a [`Bus`].
///
/// It delays [`Bus::synchronize`] and keeps a removed device in memory only while a handler runs. While the thread runs
/// its guest, it need not report anything to the bus.
#[derive(Debug)]
pub struct BusReader {
    reader: SnapshotReader<Map>,
    guesses: Guesses,
}

impl BusReader {
    fn new(reader: SnapshotReader<Map>) -> Self {
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
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "shared_test.rs"]
mod tests;
