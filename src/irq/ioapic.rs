//! The I/O APIC: turns the level of a pin into messages (82093AA datasheet; where that leaves a
//! choice, Linux `arch/x86/kvm/ioapic.c`).
//!
//! A level pin sends once and waits for its EOI (remote IRR); if the line is still up then, it
//! sends again. An edge pin sends on each rise that finds it unmasked.

use super::{Destination, Message, Mode, PINS};

/// Where its two registers are, guest-physical.
pub const BASE: u64 = 0xfec0_0000;
/// Size of the range that it answers.
pub const SIZE: u64 = 0x100;

const SELECT: u64 = 0x00;
const WINDOW: u64 = 0x10;
const ID: u8 = 0;
const VERSION: u8 = 1;
const ARBITRATION: u8 = 2;
const FIRST_ENTRY: u8 = 0x10;

/// Bits of a redirection entry.
const LOGICAL: u64 = 1 << 11;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
/// What a guest's write does not change: delivery status, remote IRR.
const READ_ONLY: u64 = 1 << 12 | REMOTE_IRR;

/// 24 pins, all masked at the start.
#[derive(Clone, Debug)]
pub struct IoApic {
    id: u8,
    select: u8,
    pins: [Pin; PINS],
}

#[derive(Clone, Copy, Debug)]
struct Pin {
    entry: u64,
    /// The line is up.
    up: bool,
}

/// What a write to a redirection entry makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// Nothing.
    None,
    /// Who waits for which EOI may be different now.
    Entry,
    /// As `Entry`; and a level line is up that may be sent: resample it if somebody does, else send.
    Pending(u8),
}

impl Default for IoApic {
    fn default() -> Self {
        let pin = Pin {
            entry: MASKED,
            up: false,
        };
        Self {
            id: 0,
            select: 0,
            pins: [pin; PINS],
        }
    }
}

impl Pin {
    fn vector(&self) -> u8 {
        (self.entry & 0xff) as u8
    }

    fn is_level(&self) -> bool {
        self.entry & LEVEL != 0
    }

    /// The message of the entry. None if it is no interrupt of a guest here.
    fn message(&self) -> Option<Message> {
        let bits = (self.entry >> 8 & 7) as u32;
        Some(Message {
            vector: self.vector(),
            mode: Mode::from_bits(bits)?,
            level: self.is_level(),
            destination: Destination::narrow((self.entry >> 56) as u8, self.entry & LOGICAL != 0),
        })
    }

    /// Sends, unless something forbids it. `deliver` says whether an APIC took it.
    fn send(&mut self, deliver: impl FnOnce(Message) -> bool) {
        if self.entry & (MASKED | REMOTE_IRR) != 0 {
            return;
        }
        let taken = self.message().is_some_and(deliver);
        if taken && self.is_level() {
            self.entry |= REMOTE_IRR;
        }
    }
}

impl IoApic {
    /// Drives a pin; nothing happens if it is at that level already, or not there.
    pub fn set_level(&mut self, pin: u8, up: bool, deliver: impl FnOnce(Message) -> bool) {
        let Some(pin) = self.pins.get_mut(usize::from(pin)) else {
            return;
        };
        let rose = up && !pin.up;
        pin.up = up;
        // A level line that is up already may still have to be sent: nobody took it before.
        if rose || up && pin.is_level() {
            pin.send(deliver);
        }
    }

    /// The pins whose EOI that of a vector is.
    pub fn pins_with(&self, vector: u8) -> impl Iterator<Item = u8> + use<> {
        let pins = self.pins;
        (0_u8..)
            .zip(pins)
            .filter(move |(_, pin)| pin.vector() == vector)
            .map(|(number, _)| number)
    }

    /// The EOI of a pin has come: a level line that is still up is sent again.
    pub fn eoi(&mut self, pin: u8, deliver: impl FnOnce(Message) -> bool) {
        let Some(pin) = self.pins.get_mut(usize::from(pin)) else {
            return;
        };
        if pin.is_level() {
            pin.entry &= !REMOTE_IRR;
            if pin.up {
                pin.send(deliver);
            }
        }
    }

    /// Sends a level line that is up: what [`Change::Pending`] asks for.
    pub fn resend(&mut self, pin: u8, deliver: impl FnOnce(Message) -> bool) {
        if let Some(pin) = self.pins.get_mut(usize::from(pin))
            && pin.up
            && pin.is_level()
        {
            pin.send(deliver);
        }
    }

    /// What each pin would send.
    pub fn messages(&self) -> impl Iterator<Item = (u8, Message)> {
        let numbered = (0_u8..).zip(&self.pins);
        numbered.filter_map(|(number, pin)| Some((number, pin.message()?)))
    }

    /// A load of 32 bits at an offset from [`BASE`].
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            SELECT => self.select.into(),
            WINDOW => self.register(),
            _ => 0,
        }
    }

    fn register(&self) -> u32 {
        match self.select {
            ID | ARBITRATION => u32::from(self.id) << 24,
            #[expect(clippy::cast_possible_truncation, reason = "24 pins")]
            VERSION => 0x11 | (PINS as u32 - 1) << 16,
            select => match self.entry(select) {
                Some((pin, high)) => {
                    let entry = self.pins[pin].entry;
                    ((if high { entry >> 32 } else { entry }) & 0xffff_ffff) as u32
                }
                None => 0,
            },
        }
    }

    /// Which pin a register number means, and whether its high half.
    fn entry(&self, select: u8) -> Option<(usize, bool)> {
        let index = select.checked_sub(FIRST_ENTRY)?;
        let pin = usize::from(index / 2);
        (pin < PINS).then_some((pin, index % 2 != 0))
    }

    /// A store of 32 bits at an offset from [`BASE`].
    pub fn write(&mut self, offset: u64, value: u32) -> Change {
        match offset {
            SELECT => self.select = (value & 0xff) as u8,
            WINDOW if self.select == ID => self.id = (value >> 24 & 0xf) as u8,
            WINDOW => {
                if let Some((pin, high)) = self.entry(self.select) {
                    return self.write_entry(pin, high, value.into());
                }
            }
            _ => {}
        }
        Change::None
    }

    fn write_entry(&mut self, number: usize, high: bool, value: u64) -> Change {
        let pin = &mut self.pins[number];
        pin.entry = if high {
            value << 32 | pin.entry & 0xffff_ffff
        } else {
            let kept = pin.entry & (READ_ONLY | !0xffff_ffff);
            kept | value & 0x1_ffff & !READ_ONLY
        };
        if !pin.is_level() {
            // Guests reset a pin by making it an edge one (Linux `ioapic_write_indirect`).
            pin.entry &= !REMOTE_IRR;
        }
        let sendable = pin.entry & (MASKED | REMOTE_IRR) == 0;
        if pin.is_level() && pin.up && sendable {
            #[expect(clippy::cast_possible_truncation, reason = "24 pins")]
            return Change::Pending(number as u8);
        }
        Change::Entry
    }
}
