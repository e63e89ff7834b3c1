//! The I/O APICs: which has a GSI, and how its pin is opened and closed.

use super::interrupt::LINE_VECTOR;
use super::memory::Registers;
use crate::acpi::madt::{IoApic, pin};

const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const FIRST_ENTRY: u32 = 0x10;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;

/// A pin of an I/O APIC.
#[derive(Clone, Copy)]
pub struct Pin {
    registers: Registers,
    number: u32,
    level: bool,
}

impl Pin {
    /// The pin of a GSI.
    pub fn new(io_apics: &[Option<IoApic>], gsi: u32, level: bool) -> Option<Self> {
        let (address, number) = pin(io_apics, gsi)?;
        Some(Self {
            registers: Registers::new(address, 0x20)?,
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
