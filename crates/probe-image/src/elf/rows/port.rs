//! Rows for ports: of a PC's devices, and without a device.

use super::Reason;
use crate::elf::port::{in8, out8};
use crate::elf::probe::Probe;
use crate::elf::serial::LINE_STATUS;

fn reads(probe: &Probe<'_>, operations: u32, port: u16) -> u64 {
    probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(in8(port));
        }
    })
}

/// The line status of the serial port that the image prints to.
pub fn serial_lsr(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    Ok(reads(probe, operations, LINE_STATUS))
}

/// Counter 0 of the programmable interval timer.
pub fn pit_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const COUNTER: u16 = 0x40;
    const COMMAND: u16 = 0x43;
    // A square wave of the full period, low byte first. alioth has no PIT.
    out8(COMMAND, 0x36);
    out8(COUNTER, 0);
    out8(COUNTER, 0);
    if (0..16).all(|_| in8(COUNTER) == 0xff) {
        return Err("port 0x40 reads as ones: there is no PIT");
    }
    Ok(reads(probe, operations, COUNTER))
}

/// The power management timer.
pub fn pm_timer_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let timer = probe.pm_timer.ok_or("the FADT names no PM timer")?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(timer.read());
        }
    }))
}

/// Register D of the real-time clock.
pub fn rtc_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const INDEX: u16 = 0x70;
    const DATA: u16 = 0x71;
    const REGISTER_D: u8 = 0x0d;
    out8(INDEX, REGISTER_D);
    // Only the bit "valid RAM and time" may be set.
    if in8(DATA) & 0x7f != 0 {
        return Err("register D does not read as a real-time clock's, so there is no clock");
    }
    Ok(reads(probe, operations, DATA))
}

/// A write to a port that no PC has a device on.
pub fn nobody(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    // Linux's other port for short delays, of which it knows that nothing is there.
    const NOBODY: u16 = 0xed;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            out8(NOBODY, 0);
        }
    }))
}
