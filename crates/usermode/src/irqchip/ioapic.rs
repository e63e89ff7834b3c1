//! The I/O APIC's registers, as the guest sees them (82093AA data sheet, 3; where the data sheet leaves a
//! choice, Linux `arch/x86/kvm/ioapic.c`).
//!
//! The redirection entries and the lines are in [`vmbell_core::ioapic`], where the stub does EOIs without the monitor.
//! The registers are used on the vCPU's thread, under the controller's lock.

use vmbell_core::ioapic::{PINS, PinLine, RedirectionEntry};

use super::apics::Apics;

/// Guest-physical address of the registers IOREGSEL and IOWIN.
pub const BASE: u64 = 0xfec0_0000;
/// Size of the register range, in bytes.
pub const SIZE: u64 = 0x100;

/// IOREGSEL selects the register that IOWIN reads and writes.
const IOREGSEL: u64 = 0x00;
const IOWIN: u64 = 0x10;

const IOAPICID: u8 = 0;
const IOAPICVER: u8 = 1;
const IOAPICARB: u8 = 2;
/// The low half of the redirection entry of pin 0; its high half follows, then the entries of the other pins.
const IOREDTBL: u8 = 0x10;

/// The registers other than the redirection entries.
#[derive(Clone, Debug, Default)]
pub struct IoApic {
    id: u8,
    ioregsel: u8,
}

/// What to do after a store of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StoreEffect {
    /// Nothing has to be done.
    None,
    /// A redirection entry was written, so the EOI exit bitmap must be filled again.
    Entry,
    /// Like `Entry`, and this pin has a level interrupt that may be sent: if the line has resamplefds, they are
    /// signalled; otherwise the interrupt is sent.
    Pending(u8),
}

impl IoApic {
    /// Returns the registers after a reset, and masks all pins.
    pub fn reset(apics: &Apics<'_>) -> Self {
        for pin in apics.pins {
            pin.program(RedirectionEntry::MASKED);
        }
        Self::default()
    }

    /// Loads 32 bits at an offset from [`BASE`].
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
            _ => self
                .redirection_entry(apics)
                .map_or(0, |(_, pin_line, high)| {
                    let remote_irr = pin_line.line.has_remote_irr();
                    pin_line.pin.entry().half(high, remote_irr)
                }),
        }
    }

    /// Returns the pin whose redirection entry IOREGSEL selects, and whether it selects the high half; `None` if it
    /// selects another register.
    fn redirection_entry<'s>(&self, apics: &Apics<'s>) -> Option<(u8, PinLine<'s>, bool)> {
        let index = self.ioregsel.checked_sub(IOREDTBL)?;
        let (pin, high) = (index / 2, index % 2 != 0);
        Some((pin, apics.pin_line(pin)?, high))
    }

    /// Stores 32 bits at an offset from [`BASE`].
    pub fn write(&mut self, offset: u64, value: u32, apics: &Apics<'_>) -> StoreEffect {
        match offset {
            IOREGSEL => self.ioregsel = (value & 0xff) as u8,
            IOWIN if self.ioregsel == IOAPICID => self.id = (value >> 24 & 0xf) as u8,
            IOWIN => {
                if let Some((pin, pin_line, high)) = self.redirection_entry(apics) {
                    return write_redirection_entry(pin, pin_line, high, value);
                }
            }
            _ => {}
        }
        StoreEffect::None
    }
}

fn write_redirection_entry(
    number: u8,
    pin_line: PinLine<'_>,
    high: bool,
    value: u32,
) -> StoreEffect {
    let entry = pin_line.pin.entry().with_half(high, value);
    pin_line.pin.program(entry);
    if !entry.is_level() {
        // Guests clear remote IRR by making the pin edge-triggered (Linux `ioapic_write_indirect`).
        pin_line.line.clear_remote_irr();
    }
    if pin_line.may_send() {
        return StoreEffect::Pending(number);
    }
    StoreEffect::Entry
}
