//! The I/O APIC's registers, as the guest sees them (82093AA data sheet, 3; where that leaves a choice,
//! Linux `arch/x86/kvm/ioapic.c`).
//!
//! The redirection entries and the lines behind them lie in [`stub::ioapic`], where the stub ends
//! interrupts without the monitor. The registers are the monitor's, under the controller's lock.

use stub::ioapic::{Entry, PINS, Wire};

use super::apics::Apics;

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

/// The registers besides the entries.
#[derive(Clone, Debug, Default)]
pub struct IoApic {
    id: u8,
    select: u8,
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

impl IoApic {
    /// Masks all pins of a guest that starts.
    pub fn reset(apics: &Apics<'_>) -> Self {
        for pin in apics.pins {
            pin.program(Entry::MASKED);
        }
        Self::default()
    }

    /// A load of 32 bits at an offset from [`BASE`].
    pub fn read(&self, offset: u64, apics: &Apics<'_>) -> u32 {
        match offset {
            SELECT => self.select.into(),
            WINDOW => self.register(apics),
            _ => 0,
        }
    }

    fn register(&self, apics: &Apics<'_>) -> u32 {
        match self.select {
            ID | ARBITRATION => u32::from(self.id) << 24,
            #[expect(clippy::cast_possible_truncation, reason = "24 pins")]
            VERSION => 0x11 | (PINS as u32 - 1) << 16,
            select => self.entry(select, apics).map_or(0, |(_, wire, high)| {
                wire.pin.entry().half(high, wire.line.waits_for_eoi())
            }),
        }
    }

    /// Which pin a register number means, and whether its high half.
    fn entry<'a>(&self, select: u8, apics: &Apics<'a>) -> Option<(u8, Wire<'a>, bool)> {
        let index = select.checked_sub(FIRST_ENTRY)?;
        let (pin, high) = (index / 2, index % 2 != 0);
        Some((pin, apics.wire(pin)?, high))
    }

    /// A store of 32 bits at an offset from [`BASE`].
    pub fn write(&mut self, offset: u64, value: u32, apics: &Apics<'_>) -> Change {
        match offset {
            SELECT => self.select = (value & 0xff) as u8,
            WINDOW if self.select == ID => self.id = (value >> 24 & 0xf) as u8,
            WINDOW => {
                if let Some((pin, wire, high)) = self.entry(self.select, apics) {
                    return write_entry(pin, wire, high, value);
                }
            }
            _ => {}
        }
        Change::None
    }
}

fn write_entry(number: u8, wire: Wire<'_>, high: bool, value: u32) -> Change {
    let entry = wire.pin.entry().with_half(high, value);
    wire.pin.program(entry);
    if !entry.is_level() {
        // Guests reset a pin by making it an edge one (Linux `ioapic_write_indirect`).
        wire.line.end();
    }
    if wire.may_send() {
        return Change::Pending(number);
    }
    Change::Entry
}
