//! The pins' redirection entries and resamplefds, written by the monitor under its controller's lock.

use crate::sync::AtomicU32;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

use super::{PINS, RedirectionEntry};

/// How many resamplefds of one pin the stub can signal; the monitor does the EOIs of pins with more.
pub const PIN_RESAMPLEFDS: usize = 8;

/// Marks a free place. No descriptor of the sandbox has this number: they begin above it.
const NONE: u32 = 0;

/// A pin. All-zero bytes are an unmasked edge-triggered pin with vector 0, which no interrupt has.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Pin {
    entry: AtomicU64,
    /// The resamplefds by their descriptors in the sandbox; 0 is a free place. A descriptor stays in its place,
    /// so that an EOI which reads the places during a change misses none.
    resamplefds: [AtomicU32; PIN_RESAMPLEFDS],
    /// Not 0: the pin has more resamplefds than places, so the monitor does its EOIs.
    monitor_eoi: AtomicU32,
    /// Not 0: the line is forwarded.
    forwarded: AtomicU32,
}

/// The I/O APIC's pins by number.
pub type Pins = [Pin; PINS];

impl Pin {
    /// The redirection entry at this moment.
    pub fn entry(&self) -> RedirectionEntry {
        RedirectionEntry(self.entry.load(Acquire))
    }

    /// Replaces the redirection entry; one writer at a time.
    pub fn program(&self, entry: RedirectionEntry) {
        self.entry.store(entry.0, Release);
    }

    /// The resamplefds that the pin's EOI signals, by their descriptors in the sandbox.
    pub fn resamplefds(&self) -> impl Iterator<Item = u32> {
        let all = self.resamplefds.iter().map(|place| place.load(Acquire));
        all.filter(|descriptor| *descriptor != NONE)
    }

    /// Whether the pin has a resamplefd.
    pub fn is_resampled(&self) -> bool {
        self.needs_monitor_eoi() || self.resamplefds().next().is_some()
    }

    /// Whether the pin has more than [`PIN_RESAMPLEFDS`] resamplefds, so that the monitor must do its EOIs.
    pub fn needs_monitor_eoi(&self) -> bool {
        self.monitor_eoi.load(Acquire) != 0
    }

    /// Whether the line is forwarded: its device looks for the end of its interrupt, and waits for no EOI.
    pub fn is_forwarded(&self) -> bool {
        self.forwarded.load(Acquire) != 0
    }

    /// Makes the line a forwarded one or not; one writer at a time.
    pub fn set_forwarded(&self, forwarded: bool) {
        self.forwarded.store(forwarded.into(), Release);
    }

    /// Replaces the resamplefds; one writer at a time.
    pub fn set_resamplefds(&self, wanted: &[u32]) {
        let is_there = |descriptor| {
            let mut all = self.resamplefds.iter();
            all.any(|place| place.load(Relaxed) == descriptor)
        };
        let is_beyond = wanted.len() > PIN_RESAMPLEFDS;
        if is_beyond {
            self.monitor_eoi.store(1, Release);
        }
        for place in &self.resamplefds {
            if !wanted.contains(&place.load(Relaxed)) {
                place.store(NONE, Release);
            }
        }
        for descriptor in wanted.iter().copied().filter(|wanted| !is_there(*wanted)) {
            let mut places = self.resamplefds.iter();
            if let Some(free) = places.find(|place| place.load(Relaxed) == NONE) {
                free.store(descriptor, Release);
            }
        }
        if !is_beyond {
            self.monitor_eoi.store(0, Release);
        }
    }
}
