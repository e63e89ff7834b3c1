//! The port at which Bochs' firmware is told to switch off: the letters of `Shutdown`, a byte each.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::bus::BusDevice;

/// Its port.
pub const SHUTDOWN_PORT: u64 = 0x8900;

const WORD: &[u8] = b"Shutdown";

/// Calls a function when the word has been spelt.
pub struct ShutdownPort<F> {
    off: F,
    /// How many letters were right.
    spelt: Mutex<usize>,
}

impl<F: Fn() + Send + Sync> ShutdownPort<F> {
    /// Calls `off`, on the thread of the vCPU that asks.
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
            // No letter comes twice as a beginning, so a wrong one starts at most a new word.
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
