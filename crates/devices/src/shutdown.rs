//! The shutdown port of Bochs: the guest writes the letters of `Shutdown`, one byte at a time.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use vmbell::bus::BusDevice;

/// The port of the device.
pub const SHUTDOWN_PORT: u64 = 0x8900;

const WORD: &[u8] = b"Shutdown";

/// Calls a function when the guest has written the word.
pub struct ShutdownPort<F> {
    off: F,
    /// How many letters of the word were written so far.
    spelt: Mutex<usize>,
}

impl<F: Fn() + Send + Sync> ShutdownPort<F> {
    /// A port that calls `off` on the thread of the vCPU that writes the last letter.
    pub fn new(off: F) -> Self {
        Self {
            off,
            spelt: Mutex::new(0),
        }
    }
}

impl<F: Fn() + Send + Sync> BusDevice for ShutdownPort<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        let mut spelt = self.spelt.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in data {
            // After a wrong letter only that letter itself can be the first of a new word: no beginning of the
            // word occurs again inside it.
            *spelt = match WORD.get(*spelt) {
                Some(wanted) if wanted == byte => *spelt + 1,
                _ => usize::from(WORD.first() == Some(byte)),
            };
            if *spelt == WORD.len() {
                *spelt = 0;
                (self.off)();
            }
        }
    }
}

impl<F> fmt::Debug for ShutdownPort<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShutdownPort")
    }
}

#[cfg(test)]
#[path = "shutdown_test.rs"]
mod tests;
