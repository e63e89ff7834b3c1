//! Devices that consume a doorbell, for measurements and boards: a counter on the bus, which a heavy exit increments, a
//! hook that calls a function for each write, and a thread that spins on a word in memory.
//!
//! The counter and the hook run on the thread of the vCPU that writes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::{fmt, io};

use vmbell::bus::BusDevice;
use vmbell::thread::{self, ThreadKind};

/// Counts writes. Reads return the count, little-endian, truncated to the width of the read.
///
/// Runs on the thread of the vCPU that writes.
#[derive(Debug, Default)]
pub struct DoorbellCounter {
    rings: AtomicU64,
}

impl DoorbellCounter {
    /// How many writes there have been.
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

/// Calls a function for each write. Reads return zeros.
pub struct Hook<F>(pub F);

impl<F> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl<F: Fn() + Send + Sync> BusDevice for Hook<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _offset: u64, _data: &[u8]) {
        (self.0)();
    }
}

/// A thread that polls a word until the poller is dropped.
#[derive(Debug)]
pub struct WordPoller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WordPoller {
    /// Starts a thread that runs `setup` once, then reads the word with `load` in a loop, and calls `heard` with each
    /// new value. The thread keeps its CPU busy all the time.
    pub fn start(
        setup: impl FnOnce() + Send + 'static,
        load: impl Fn() -> u64 + Send + 'static,
        mut heard: impl FnMut(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let their_stop = Arc::clone(&stop);
        let mut seen = load();
        let poll = move || {
            setup();
            while !their_stop.load(Relaxed) {
                let value = load();
                if value == seen {
                    std::hint::spin_loop();
                } else {
                    seen = value;
                    heard(value);
                }
            }
        };
        let thread = thread::spawn(ThreadKind::Device, "vmbell-poller", poll)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for WordPoller {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
