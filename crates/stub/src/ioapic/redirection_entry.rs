//! A redirection entry: the message that a pin sends, its trigger mode and its mask (82093AA, 3.2.4).

use crate::lapic::{Destination, Message, Mode};

const LOGICAL: u64 = 1 << 11;
const DELIVERY_STATUS: u64 = 1 << 12;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
/// Bits of the low half that a guest's store changes; delivery status and remote IRR are read-only.
const WRITABLE: u64 = 0x1_ffff & !(DELIVERY_STATUS | REMOTE_IRR);
const LOW: u64 = 0xffff_ffff;

/// The 64 bits of a redirection entry. Remote IRR is not among them: it is a bit of [`super::Line`].
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

    /// Whether the pin sends edges. A masked entry may be one that the guest has not programmed yet.
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

    /// The half that a register shows, bits 63:32 if `high`. `remote_irr` is that of the pin's line.
    pub fn half(self, high: bool, remote_irr: bool) -> u32 {
        let shown = self.0 | if remote_irr { REMOTE_IRR } else { 0 };
        ((if high { shown >> 32 } else { shown }) & LOW) as u32
    }

    /// The entry after the guest has stored `value` to one half, bits 63:32 if `high`.
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
