//! The I/O APICs: which has a GSI, and how its pin is opened and closed.

use super::interrupt::LINE_VECTOR;
use super::memory::Registers;
use crate::acpi::madt::IoApic;

const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const FIRST_ENTRY: u32 = 0x10;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
/// A pin's number is within the registers that an index of a byte reaches.
const PINS: u32 = 120;

/// A pin of an I/O APIC.
#[derive(Clone, Copy)]
pub struct Pin {
    registers: Registers,
    number: u32,
    level: bool,
}

impl Pin {
    /// The pin of a GSI. QEMU's microvm has GSIs of devices on a second I/O APIC, so the MADT is asked; without one,
    /// there is one I/O APIC, where a PC has it.
    pub fn new(io_apics: &[Option<IoApic>], gsi: u32, level: bool) -> Option<Self> {
        const DEFAULT: IoApic = IoApic {
            address: 0xfec0_0000,
            first_gsi: 0,
        };
        let found = io_apics
            .iter()
            .flatten()
            .filter(|io_apic| io_apic.first_gsi <= gsi)
            .max_by_key(|io_apic| io_apic.first_gsi);
        let io_apic = *found.unwrap_or(&DEFAULT);
        let number = gsi - io_apic.first_gsi;
        (number < PINS).then_some(Self {
            registers: Registers::new(io_apic.address, 0x20)?,
            number,
            level,
        })
    }

    /// Sends the pin's interrupts to a CPU.
    pub fn open(self, cpu: u32) {
        let level = if self.level { LEVEL } else { 0 };
        self.set(1, cpu << 24);
        self.set(0, level | u32::from(LINE_VECTOR));
    }

    /// Keeps the pin's interrupts back.
    pub fn close(self) {
        self.set(0, MASKED);
    }

    fn set(self, half: u32, value: u32) {
        self.registers
            .write32(SELECT, FIRST_ENTRY + 2 * self.number + half);
        self.registers.write32(WINDOW, value);
    }
}
