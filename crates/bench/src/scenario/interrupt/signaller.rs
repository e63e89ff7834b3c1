//! What the thread that raises interrupts sees of the guest: words of the page of parameters.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use vmbell::guest::offset;
use vmbell::machine::PARAMETERS;

/// The guest's words, and whether the guest still runs.
#[derive(Debug)]
pub(super) struct View {
    memory: GuestMemoryMmap,
    over: AtomicBool,
}

/// How long after the guest's end something that it did may still be on its way to a waiting thread.
const LINGER: Duration = Duration::from_millis(500);

/// The guest has ended, and what a thread waited for will not happen.
#[derive(Debug, thiserror::Error)]
#[error("the guest ended before its interrupts: it took one twice, or one was not raised for it")]
pub(super) struct Over;

impl View {
    pub(super) fn new(memory: &GuestMemoryMmap) -> Self {
        Self {
            memory: memory.clone(),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn ready(&self) -> u64 {
        self.word(offset::READY)
    }

    pub(super) fn interrupts(&self) -> u64 {
        self.word(offset::INTERRUPTS)
    }

    /// The time stamp at the first instruction of the latest interrupt handler.
    pub(super) fn entered(&self) -> u64 {
        self.word(offset::ENTERED)
    }

    fn word(&self, offset: usize) -> u64 {
        // The page is RAM for as long as the guest exists; a failed read would show as wrong counts.
        let address = GuestAddress(PARAMETERS.0 + offset as u64);
        self.memory.load(address, Acquire).unwrap_or_default()
    }

    /// Spins until `happened` returns true, or fails some time after the guest has ended.
    pub(super) fn wait(&self, happened: impl Fn() -> bool) -> Result<(), Over> {
        let mut ended: Option<Instant> = None;
        while !happened() {
            if self.over.load(Relaxed) && ended.get_or_insert_with(Instant::now).elapsed() >= LINGER
            {
                return Err(Over);
            }
            // The thread that passes the interrupt on may need this very CPU.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Says that a run begins, so there is a guest to wait for.
    pub(super) fn begin(&self) {
        self.over.store(false, Relaxed);
    }

    /// Says that the guest has ended, whether it was done or not: it takes no more interrupts.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }
}

#[cfg(test)]
#[path = "signaller_test.rs"]
mod tests;
