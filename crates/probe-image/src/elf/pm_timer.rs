//! The power management timer of ACPI, at the place that the FADT names.

use super::memory::Registers;
use super::port::in32;
use crate::acpi::fadt::Register;
use crate::acpi::tables::Acpi;

/// The timer has 24 or 32 bits; the lower 24 count in both.
const BITS: u32 = 0xff_ffff;

/// The timer.
#[derive(Clone, Copy)]
pub enum PmTimer {
    Port(u16),
    Memory(Registers),
}

impl PmTimer {
    /// The timer, if the FADT names one.
    pub fn new(acpi: &Acpi) -> Option<Self> {
        match acpi.fadt?.pm_timer? {
            Register::Port(port) => Some(Self::Port(port)),
            Register::Memory(address) => Some(Self::Memory(Registers::new(address, 4)?)),
        }
    }

    /// Reads the timer.
    #[inline]
    pub fn read(self) -> u32 {
        let value = match self {
            Self::Port(port) => in32(port),
            Self::Memory(registers) => registers.read32(0),
        };
        value & BITS
    }

    /// How far the timer has come since it had a value.
    pub fn since(self, from: u32) -> u32 {
        self.read().wrapping_sub(from) & BITS
    }
}
