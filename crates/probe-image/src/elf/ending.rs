//! The image's end: tries each method to switch a machine off in turn, because no method works on all VMMs.
//!
//! QEMU has PM1a, and a debug-exit device if requested; Cloud Hypervisor and alioth have the FADT's sleep control
//! register; Firecracker, libkrun and kvmtool end at the keyboard controller's reset, crosvm at the reset port, and all
//! others at a triple fault.

use super::cpu::{self, in8, out8, out16};
use super::memory::Registers;
use crate::acpi::fadt::Register;
use crate::acpi::tables::Acpi;

const DEBUG_EXIT: u16 = 0xf4;
const KEYBOARD_CONTROLLER: u16 = 0x64;
const RESET: u16 = 0xcf9;

/// The value for S5 if the DSDT does not have it: the value that hardware-reduced VMMs use.
const SLEEP_TYPE: u8 = 5;

/// The name of the first method that the tables or ports offer. The machine may end by a different one: `end` tries all
/// methods, and a VMM may end at a port that reads as if it had no device.
pub fn first(acpi: &Acpi, safe: bool) -> &'static str {
    if !safe && in8(DEBUG_EXIT) == 0 {
        // QEMU's debug-exit device reads as zero, and an unassigned port as all ones.
        return "debug-exit";
    }
    match acpi.fadt {
        Some(fadt) if fadt.sleep_control.is_some() => "acpi-sleep",
        Some(fadt) if fadt.pm1a_control.is_some() && acpi.sleep_type.is_some() => "pm1a",
        _ => "i8042",
    }
}

/// Ends the machine.
pub fn end(acpi: &Acpi) -> ! {
    out8(DEBUG_EXIT, 0x10);
    if let Some(register) = acpi.fadt.and_then(|fadt| fadt.sleep_control) {
        const ENABLE: u8 = 1 << 5;
        let value = ENABLE | acpi.sleep_type.unwrap_or(SLEEP_TYPE) << 2;
        match register {
            Register::Port(port) => out8(port, value),
            Register::Memory(address) => {
                if let Some(registers) = Registers::new(address, 1) {
                    registers.write8(0, value);
                }
            }
        }
    }
    let pm1a = acpi.fadt.and_then(|fadt| fadt.pm1a_control);
    if let (Some(Register::Port(port)), Some(kind)) = (pm1a, acpi.sleep_type) {
        const ENABLE: u16 = 1 << 13;
        out16(port, ENABLE | u16::from(kind) << 10);
    }
    end_without_tables()
}

/// Ends the machine by the methods that need no table.
pub fn end_without_tables() -> ! {
    out8(DEBUG_EXIT, 0x10);
    out8(KEYBOARD_CONTROLLER, 0xfe);
    out8(RESET, 6);
    cpu::triple_fault()
}
