//! Rows for addresses that no device answers.

use super::Reason;
use crate::elf::memory::Registers;
use crate::elf::probe::Probe;

/// Between the I/O APIC and the local APIC, after a PC's HPET and TPM: no known VMM has RAM or a device there.
const NOBODY: u64 = 0xfed8_0000;

fn place() -> Result<Registers, Reason> {
    Registers::new(NOBODY, 8).ok_or("the address cannot be mapped")
}

/// A 32-bit store.
pub fn store_nobody(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let place = place()?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            place.write32(0, 0);
        }
    }))
}

/// A 32-bit load.
pub fn load_nobody(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let place = place()?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(place.read32(0));
        }
    }))
}
