//! The second CPU, which halts and counts the interrupts that the first CPU sends.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::apic::{LocalApic, Mode};
use super::cpu::ticks;
use super::interrupt::{SECOND_CPU_EOI_MODE, SECOND_CPU_INTERRUPTS, SECOND_CPU_VECTOR};
use super::memory::Registers;
use super::time::wait_until;
use crate::acpi::tables::Acpi;

/// The page in which the CPU starts. Loaders put their tables there, but they are no longer used.
const START_PAGE: u32 = 8;
const INIT: u32 = 0x4500;
const START_UP: u32 = 0x4600 | START_PAGE;
/// Ten milliseconds between INIT and start-up, on a 4 GHz CPU.
const PAUSE: u64 = 40_000_000;
/// Long enough for the CPU to return from its interrupt and halt.
const HALT_PAUSE: u64 = 100_000;

unsafe extern "C" {
    static second_cpu_start: u8;
    static second_cpu_start_end: u8;
}

fn pause(length: u64) {
    let from = ticks();
    wait_until(|| ticks() - from > length);
}

/// A CPU that has started.
#[derive(Clone, Copy)]
pub struct SecondCpu {
    id: u32,
}

impl SecondCpu {
    /// Starts the first CPU in the MADT other than this one.
    pub fn start(acpi: &Acpi, apic: &LocalApic) -> Result<Self, &'static str> {
        if apic.mode == Mode::None {
            return Err("there is no local APIC");
        }
        let id = acpi
            .other_cpu(apic.id(), apic.mode == Mode::X2apic)
            .ok_or("the MADT names no second CPU")?;
        copy_start()?;
        SECOND_CPU_EOI_MODE.store(if apic.mode == Mode::X2apic { 2 } else { 1 }, Relaxed);
        apic.command(id, INIT);
        pause(PAUSE);
        // A second start-up command is for CPUs that miss the first.
        for _ in 0..2 {
            apic.command(id, START_UP);
            if wait_until(|| SECOND_CPU_INTERRUPTS.load(Relaxed) != 0) {
                return Ok(Self { id });
            }
        }
        Err("the second CPU does not start")
    }

    /// Interrupts the halted CPU, and returns the ticks until its handler has counted the interrupt.
    pub fn interrupt(self, apic: &LocalApic) -> Result<u64, &'static str> {
        pause(HALT_PAUSE);
        let before = SECOND_CPU_INTERRUPTS.load(Relaxed);
        let from = ticks();
        apic.command(self.id, u32::from(SECOND_CPU_VECTOR));
        if wait_until(|| SECOND_CPU_INTERRUPTS.load(Relaxed) != before) {
            Ok(ticks() - from)
        } else {
            Err("hung")
        }
    }
}

/// Copies the first instructions to where a CPU in real mode can run them.
fn copy_start() -> Result<(), &'static str> {
    let from = &raw const second_cpu_start;
    let len = &raw const second_cpu_start_end as u64 - from as u64;
    let page = Registers::new(u64::from(START_PAGE) << 12, len).ok_or("no memory below 1 MiB")?;
    for offset in 0..len {
        // SAFETY: the byte is within the code between the two symbols, which is never written.
        let byte = unsafe { *((from as u64 + offset) as *const u8) };
        page.write8(offset, byte);
    }
    Ok(())
}
