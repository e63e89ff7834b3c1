//! The pins: their redirection entries (82093AA, 3.2.4) and resamplefds. The monitor writes them under the lock of its
//! controller. A redirection entry has the message that a pin sends, its trigger mode and its mask.

use super::PINS;
use crate::lapic::{Destination, Message, Mode};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64};

/// How many resamplefds of one pin the stub can signal. For a pin with more, the monitor does the EOIs.
pub const PIN_RESAMPLEFDS: usize = 8;

/// Marks a free place. No descriptor of the sandbox has this number.
const NO_RESAMPLEFD: u32 = 0;

/// A pin. All-zero bytes are an unmasked edge-triggered pin with vector 0, and no interrupt has that vector.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Pin {
    entry: AtomicU64,
    /// The resamplefds by their descriptors in the sandbox; 0 is a free place. A descriptor stays in its place, so that
    /// an EOI that reads the places during a change does not miss it.
    resamplefds: [AtomicU32; PIN_RESAMPLEFDS],
    /// Not 0 if the pin has more resamplefds than places, so that the monitor does its EOIs.
    monitor_eoi: AtomicU32,
    /// Not 0 if the line is forwarded.
    forwarded: AtomicU32,
}

/// The I/O APIC's pins by number.
pub type Pins = [Pin; PINS];

impl Pin {
    /// The redirection entry at this moment.
    pub fn entry(&self) -> RedirectionEntry {
        RedirectionEntry(self.entry.load(Acquire))
    }

    /// Replaces the redirection entry. Only one thread may write at a time.
    pub fn program(&self, entry: RedirectionEntry) {
        self.entry.store(entry.0, Release);
    }

    /// The resamplefds that the pin's EOI signals, by their descriptors in the sandbox.
    pub fn resamplefds(&self) -> impl Iterator<Item = u32> {
        let all = self.resamplefds.iter().map(|place| place.load(Acquire));
        all.filter(|descriptor| *descriptor != NO_RESAMPLEFD)
    }

    /// Whether the pin has a resamplefd.
    pub fn is_resampled(&self) -> bool {
        self.needs_monitor_eoi() || self.resamplefds().next().is_some()
    }

    /// Whether the pin has more than [`PIN_RESAMPLEFDS`] resamplefds, so that the monitor must do its EOIs.
    pub fn needs_monitor_eoi(&self) -> bool {
        self.monitor_eoi.load(Acquire) != 0
    }

    /// Whether the line is forwarded: its device polls for the end of the interrupt, and does not wait for an EOI.
    pub fn is_forwarded(&self) -> bool {
        self.forwarded.load(Acquire) != 0
    }

    /// Starts or stops forwarding the line. Only one thread may write at a time.
    pub fn set_forwarded(&self, forwarded: bool) {
        self.forwarded.store(forwarded.into(), Release);
    }

    /// Replaces the resamplefds. Only one thread may write at a time.
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
                place.store(NO_RESAMPLEFD, Release);
            }
        }
        for descriptor in wanted.iter().copied().filter(|wanted| !is_there(*wanted)) {
            let mut places = self.resamplefds.iter();
            if let Some(free) = places.find(|place| place.load(Relaxed) == NO_RESAMPLEFD) {
                free.store(descriptor, Release);
            }
        }
        if !is_beyond {
            self.monitor_eoi.store(0, Release);
        }
    }
}

const LOGICAL: u64 = 1 << 11;
const DELIVERY_STATUS: u64 = 1 << 12;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
/// Bits of the low half that a guest's store changes. Delivery status and remote IRR are read-only.
const WRITABLE: u64 = 0x1_ffff & !(DELIVERY_STATUS | REMOTE_IRR);
const LOW: u64 = 0xffff_ffff;

/// The 64 bits of a redirection entry. Remote IRR is not one of them: it is a bit of [`super::Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectionEntry(pub u64);

impl RedirectionEntry {
    /// A redirection entry after reset: masked, edge-triggered, vector 0.
    pub const MASKED: Self = Self(MASKED);

    /// The vector that the pin sends.
    pub fn vector(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    /// Whether the pin is level-triggered: it waits for an EOI before it sends again.
    pub fn is_level(self) -> bool {
        self.0 & LEVEL != 0
    }

    /// Whether the pin is masked: it sends nothing.
    pub fn is_masked(self) -> bool {
        self.0 & MASKED != 0
    }

    /// Whether the pin sends edges. A masked entry does not count: the guest may not have programmed it yet.
    pub fn sends_edges(self) -> bool {
        !self.is_level() && !self.is_masked()
    }

    /// The message that the pin sends; `None` for a delivery mode other than fixed and lowest priority.
    pub fn message(self) -> Option<Message> {
        Some(Message {
            vector: self.vector(),
            mode: Mode::from_bits((self.0 >> 8 & 7) as u32)?,
            level: self.is_level(),
            destination: Destination::narrow((self.0 >> 56) as u8, self.0 & LOGICAL != 0),
        })
    }

    /// The half that a register shows: bits 63:32 if `high`. `remote_irr` is the remote IRR of the pin's line.
    pub fn half(self, high: bool, remote_irr: bool) -> u32 {
        let shown = self.0 | if remote_irr { REMOTE_IRR } else { 0 };
        ((if high { shown >> 32 } else { shown }) & LOW) as u32
    }

    /// The entry after the guest has stored `value` to one half: bits 63:32 if `high`.
    #[must_use]
    pub fn with_half(self, high: bool, value: u32) -> Self {
        let value = u64::from(value);
        Self(if high {
            value << 32 | self.0 & LOW
        } else {
            self.0 & !LOW | value & WRITABLE
        })
    }
}
