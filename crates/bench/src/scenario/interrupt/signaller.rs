//! The thread that raises interrupts, and what it sees of the guest: words of the parameters' page.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use vmbell::guest::offset;
use vmbell::machine::PARAMETERS;

/// The guest's words, and whether there is still a guest to wait for.
#[derive(Debug)]
pub(super) struct View {
    memory: GuestMemoryMmap,
    over: AtomicBool,
}

/// How long after the guest's end what it did may be on its way to whoever waits.
const LINGER: Duration = Duration::from_millis(500);

/// The guest has ended, and what was waited for will not come.
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

    /// The TSC at the first instruction of the last handler.
    pub(super) fn entered(&self) -> u64 {
        self.word(offset::ENTERED)
    }

    fn word(&self, offset: usize) -> u64 {
        // The page is RAM for as long as the guest exists; a read that fails would show in the counts.
        let address = GuestAddress(PARAMETERS.0 + offset as u64);
        self.memory.load(address, Acquire).unwrap_or_default()
    }

    /// Spins until something has happened, or can no more since the guest has ended.
    pub(super) fn wait(&self, happened: impl Fn() -> bool) -> Result<(), Over> {
        let mut ended: Option<Instant> = None;
        while !happened() {
            if self.over.load(Relaxed) && ended.get_or_insert_with(Instant::now).elapsed() >= LINGER
            {
                return Err(Over);
            }
            // Whoever passes the interrupt on may need this very CPU.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// A run begins: there is a guest to wait for.
    pub(super) fn begin(&self) {
        self.over.store(false, Relaxed);
    }

    /// The guest has ended, in whatever way: nobody takes interrupts now.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }
}

#[cfg(test)]
#[path = "signaller_test.rs"]
mod tests;
