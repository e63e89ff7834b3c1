//! Rows for the local APIC's timer: the interrupt, and the wake-up of a halted CPU.

use core::sync::atomic::Ordering::Relaxed;

use super::{HUNG, Probe, Reason};
use crate::elf::cpu::{disable_interrupts, enable_interrupts, ticks};
use crate::elf::interrupt::{INTERRUPT_AT, count};
use crate::elf::time::{halt_until, wait_until};

/// How far ahead the timer of a halted CPU is set: 100 µs, or `AHEAD_TICKS` if the frequency is unknown.
const AHEAD_HZ: u64 = 10_000;
const AHEAD_TICKS: u64 = 200_000;

fn expect_timer(probe: &Probe<'_>) -> Result<bool, Reason> {
    if !probe.apic.has_timer {
        return Err("the local APIC's timer does not interrupt");
    }
    Ok(probe.cpu.has_tsc_deadline())
}

/// Sets the timer to the earliest possible time, and takes its interrupt: measures from the write until the handler has
/// returned.
pub fn timer(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let deadline = expect_timer(probe)?;
    let apic = probe.apic;
    apic.set_timer(deadline);
    let mut lost = false;
    enable_interrupts();
    let ticks = probe.timed(|| {
        for _ in 0..operations {
            let before = count();
            if deadline {
                apic.start_deadline(1);
            } else {
                apic.start_count(1);
            }
            if !wait_until(|| count() != before) {
                lost = true;
                break;
            }
        }
    });
    disable_interrupts();
    if lost { Err(HUNG) } else { Ok(ticks) }
}

/// Measures from the time for which the timer was set until the handler runs, on a halted CPU. The watchdog uses the
/// same timer, so nothing ends the halt if the interrupt is lost. The row before has shown that it is not lost.
pub fn hlt_wake(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let deadline = expect_timer(probe)?;
    let apic = probe.apic;
    let ahead = probe.clock.map_or(AHEAD_TICKS, |(hz, _)| hz / AHEAD_HZ);
    let counts = apic.counts(ahead);
    if !deadline && counts.is_none() {
        return Err("the local APIC's timer does not count");
    }
    apic.set_timer(deadline);
    probe.counted(|| {
        let mut late = 0;
        for _ in 0..operations {
            let before = count();
            let due = ticks() + ahead;
            match counts {
                Some(counts) if !deadline => apic.start_count(counts),
                _ => apic.start_deadline(due),
            }
            if !halt_until(|| count() != before) {
                return Err(HUNG);
            }
            late += INTERRUPT_AT.load(Relaxed).saturating_sub(due);
        }
        Ok(late)
    })
}
