//! The pins' redirection entries and resamplefds, written by the monitor under its controller's lock.

use crate::sync::AtomicU32;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

use super::{Entry, PINS};

/// How many resamplefds of one pin the stub can signal; the monitor ends the interrupts of pins with more.
pub const RESAMPLERS: usize = 8;

/// Marks a free place. No descriptor of the sandbox has this number: they begin above it.
const NONE: u32 = 0;

/// A pin. All-zero bytes are an unmasked edge-triggered pin with vector 0, which no interrupt has.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Pin {
    entry: AtomicU64,
    /// The resamplefds by their descriptors in the sandbox; 0 is a free place. A descriptor stays in its place,
    /// so that an EOI which reads the places during a change misses none.
    resamplers: [AtomicU32; RESAMPLERS],
    /// Not 0: the pin has more resamplefds than places.
    crowded: AtomicU32,
}

/// The I/O APIC's pins by number.
pub type Pins = [Pin; PINS];

impl Pin {
    /// The redirection entry at this moment.
    pub fn entry(&self) -> Entry {
        Entry(self.entry.load(Acquire))
    }

    /// Replaces the redirection entry; one writer at a time.
    pub fn program(&self, entry: Entry) {
        self.entry.store(entry.0, Release);
    }

    /// The resamplefds that the pin's EOI signals, by their descriptors in the sandbox.
    pub fn resamplers(&self) -> impl Iterator<Item = u32> {
        let all = self.resamplers.iter().map(|place| place.load(Acquire));
        all.filter(|descriptor| *descriptor != NONE)
    }

    /// Whether the pin has a resamplefd.
    pub fn is_resampled(&self) -> bool {
        self.is_crowded() || self.resamplers().next().is_some()
    }

    /// Whether the pin has more than [`RESAMPLERS`] resamplefds, so that the monitor must end its interrupts.
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Acquire) != 0
    }

    /// Replaces the resamplefds; one writer at a time.
    pub fn set_resamplers(&self, wanted: &[u32]) {
        let is_there = |descriptor| {
            let mut all = self.resamplers.iter();
            all.any(|place| place.load(Relaxed) == descriptor)
        };
        let is_crowded = wanted.len() > RESAMPLERS;
        if is_crowded {
            self.crowded.store(1, Release);
        }
        for place in &self.resamplers {
            if !wanted.contains(&place.load(Relaxed)) {
                place.store(NONE, Release);
            }
        }
        for descriptor in wanted.iter().copied().filter(|wanted| !is_there(*wanted)) {
            let mut places = self.resamplers.iter();
            if let Some(free) = places.find(|place| place.load(Relaxed) == NONE) {
                free.store(descriptor, Release);
            }
        }
        if !is_crowded {
            self.crowded.store(0, Release);
        }
    }
}
