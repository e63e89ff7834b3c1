//! The I/O APIC's registers, as the guest sees them (82093AA data sheet, 3; where that leaves a choice,
//! Linux `arch/x86/kvm/ioapic.c`).
//!
//! The redirection entries and the lines behind them lie in [`stub::ioapic`], where the stub ends
//! interrupts without the monitor. The registers are the monitor's, under the controller's lock.

use stub::ioapic::{Entry, PINS, Wire};

use super::apics::Apics;

/// Where IOREGSEL and IOWIN are, guest-physical.
pub const BASE: u64 = 0xfec0_0000;
/// Size of the range that it answers.
pub const SIZE: u64 = 0x100;

/// Selects the register that IOWIN shows.
const IOREGSEL: u64 = 0x00;
const IOWIN: u64 = 0x10;

const IOAPICID: u8 = 0;
const IOAPICVER: u8 = 1;
const IOAPICARB: u8 = 2;
/// The low half of the first pin's redirection entry; the high half follows, and then the next pin's.
const IOREDTBL: u8 = 0x10;

/// The registers besides the redirection entries.
#[derive(Clone, Debug, Default)]
pub struct IoApic {
    id: u8,
    ioregsel: u8,
}

/// What a guest's store makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// Nothing.
    None,
    /// A redirection entry was written: the EOI exit bitmap may be another now.
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
            IOREGSEL => self.ioregsel.into(),
            IOWIN => self.register(apics),
            _ => 0,
        }
    }

    fn register(&self, apics: &Apics<'_>) -> u32 {
        match self.ioregsel {
            IOAPICID | IOAPICARB => u32::from(self.id) << 24,
            #[expect(clippy::cast_possible_truncation, reason = "24 pins")]
            IOAPICVER => 0x11 | (PINS as u32 - 1) << 16,
            _ => self.redirection_entry(apics).map_or(0, |(_, wire, high)| {
                let remote_irr = wire.line.waits_for_eoi();
                wire.pin.entry().half(high, remote_irr)
            }),
        }
    }

    /// The pin whose redirection entry is selected, if one is, and whether its high half.
    fn redirection_entry<'s>(&self, apics: &Apics<'s>) -> Option<(u8, Wire<'s>, bool)> {
        let index = self.ioregsel.checked_sub(IOREDTBL)?;
        let (pin, high) = (index / 2, index % 2 != 0);
        Some((pin, apics.wire(pin)?, high))
    }

    /// A store of 32 bits at an offset from [`BASE`].
    pub fn write(&mut self, offset: u64, value: u32, apics: &Apics<'_>) -> Change {
        match offset {
            IOREGSEL => self.ioregsel = (value & 0xff) as u8,
            IOWIN if self.ioregsel == IOAPICID => self.id = (value >> 24 & 0xf) as u8,
            IOWIN => {
                if let Some((pin, wire, high)) = self.redirection_entry(apics) {
                    return write_redirection_entry(pin, wire, high, value);
                }
            }
            _ => {}
        }
        Change::None
    }
}

fn write_redirection_entry(number: u8, wire: Wire<'_>, high: bool, value: u32) -> Change {
    let entry = wire.pin.entry().with_half(high, value);
    wire.pin.program(entry);
    if !entry.is_level() {
        // Guests clear remote IRR by making the pin an edge one (Linux `ioapic_write_indirect`).
        wire.line.end();
    }
    if wire.may_send() {
        return Change::Pending(number);
    }
    Change::Entry
}
