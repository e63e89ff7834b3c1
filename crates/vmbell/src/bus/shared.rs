//! The side of the bus that changes it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{BusDevice, BusError, BusRange, BusReader, map::Map};
use crate::quiesce::Snapshot;

/// An address space.
///
/// Changes take turns by a lock, wait for no reader, and may be made from inside a device's
/// handler. A handler that has begun runs to its end although its device is off the bus by then;
/// [`synchronize`](Self::synchronize) waits for that.
pub struct Bus {
    snapshot: Snapshot<Map>,
    map: Mutex<Map>,
}

impl Bus {
    /// Nobody answers.
    pub fn new() -> Self {
        Self {
            snapshot: Snapshot::new(Map::default()),
            map: Mutex::default(),
        }
    }

    /// Lets `device` answer `range`.
    pub fn insert(&self, range: BusRange, device: Arc<dyn BusDevice>) -> Result<(), BusError> {
        self.change(|map| map.insert(range, device))
    }

    /// Takes exactly `range` off the bus, and gives its device back.
    pub fn remove(&self, range: BusRange) -> Result<Arc<dyn BusDevice>, BusError> {
        self.change(|map| map.remove(range))
    }

    /// Waits until no handler runs that was found before the call.
    ///
    /// Not for handlers: on a thread that is inside one, it never returns.
    pub fn synchronize(&self) {
        self.snapshot.domain().synchronize();
    }

    /// A handle for one thread that looks devices up.
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
        // Behind the lock: a device that is dropped may want to change the bus in turn.
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

#[cfg(test)]
#[cfg(not(loom))]
#[path = "shared_test.rs"]
mod tests;
