//! A consumer thread that spins on a word in memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use vmbell::thread::{self, ThreadKind};

/// A thread that polls a word until this is dropped.
#[derive(Debug)]
pub struct WordPoller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WordPoller {
    /// Starts a thread that runs `setup` once, then reads the word with `load` in a loop, and calls `heard`
    /// with each new value. It keeps its CPU busy all the time.
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
