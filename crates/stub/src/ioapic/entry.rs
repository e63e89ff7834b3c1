//! A redirection entry: what a pin sends, and whether it may (82093AA, 3.2.4).

use crate::lapic::{Destination, Message, Mode};

const LOGICAL: u64 = 1 << 11;
const DELIVERY_STATUS: u64 = 1 << 12;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
/// Bits of the low half that a guest's store changes; delivery status and remote IRR are read-only.
const WRITABLE: u64 = 0x1_ffff & !(DELIVERY_STATUS | REMOTE_IRR);
const LOW: u64 = 0xffff_ffff;

/// The 64 bits of an entry, without remote IRR, which is the line's ([`super::Line`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    /// Every entry of an I/O APIC that was reset: masked, edge, vector 0.
    pub const MASKED: Self = Self(MASKED);

    /// The vector that the pin sends.
    pub fn vector(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    /// Whether the pin waits for an EOI before it sends again.
    pub fn is_level(self) -> bool {
        self.0 & LEVEL != 0
    }

    /// Whether the pin sends nothing.
    pub fn is_masked(self) -> bool {
        self.0 & MASKED != 0
    }

    /// What the pin sends. None if its delivery mode is no interrupt of a guest here.
    pub fn message(self) -> Option<Message> {
        Some(Message {
            vector: self.vector(),
            mode: Mode::from_bits((self.0 >> 8 & 7) as u32)?,
            level: self.is_level(),
            destination: Destination::narrow((self.0 >> 56) as u8, self.0 & LOGICAL != 0),
        })
    }

    /// The half that a register shows: `high` is bits 63:32. `remote_irr` is the line's.
    pub fn half(self, high: bool, remote_irr: bool) -> u32 {
        let shown = self.0 | if remote_irr { REMOTE_IRR } else { 0 };
        ((if high { shown >> 32 } else { shown }) & LOW) as u32
    }

    /// The entry after a guest's store to one half.
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
