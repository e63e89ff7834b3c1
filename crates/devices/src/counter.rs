//! A doorbell as a device model: a counter on the bus, which a heavy exit increments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use vmbell::bus::BusDevice;

/// Counts writes. Reads return the count, little-endian, cut to their width.
///
/// It runs on the thread of the vCPU that writes.
#[derive(Debug, Default)]
pub struct DoorbellCounter {
    rings: AtomicU64,
}

impl DoorbellCounter {
    /// How many writes there were.
    pub fn rings(&self) -> u64 {
        self.rings.load(Relaxed)
    }
}

impl BusDevice for DoorbellCounter {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        let count = self.rings().to_le_bytes();
        for (byte, count) in data.iter_mut().zip(count) {
            *byte = count;
        }
    }

    fn write(&self, _offset: u64, _data: &[u8]) {
        self.rings.fetch_add(1, Relaxed);
    }
}
