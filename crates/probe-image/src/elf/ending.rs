//! The image's end: every way that some VMM understands, one after another, since none is understood by all.
//!
//! QEMU has a debug-exit device if it is asked for, and PM1a; Cloud Hypervisor and alioth have the FADT's sleep
//! control register; Firecracker, libkrun and kvmtool end by the keyboard controller's reset; crosvm by the reset port;
//! the rest by a triple fault.

use super::cpu;
use super::port::{in8, out8};

const DEBUG_EXIT: u16 = 0xf4;
const KEYBOARD_CONTROLLER: u16 = 0x64;
const RESET: u16 = 0xcf9;

/// Whether QEMU's debug-exit device is there: its port reads as zero, and an unassigned one as ones.
pub fn has_debug_exit() -> bool {
    in8(DEBUG_EXIT) == 0
}

/// Ends the machine by what needs no table.
pub fn end_without_tables() -> ! {
    out8(DEBUG_EXIT, 0x10);
    out8(KEYBOARD_CONTROLLER, 0xfe);
    out8(RESET, 6);
    cpu::triple_fault()
}
