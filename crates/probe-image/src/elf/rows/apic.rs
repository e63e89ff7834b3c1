//! The local APIC's registers in both modes: the task priority, the EOI, and a self-IPI.

use core::sync::atomic::Ordering::Relaxed;

use super::{HUNG, Probe, Reason};
use crate::elf::apic::{EOI, Mode, TASK_PRIORITY};
use crate::elf::cpu::{disable_interrupts, enable_interrupts, write_msr};
use crate::elf::interrupt::{PV_EOI_ON, PV_EOI_WORD, ROW_VECTOR, count};
use crate::elf::time::wait_until;

fn expect(probe: &Probe<'_>, mode: Mode) -> Result<(), Reason> {
    match probe.apic.mode {
        found if found == mode => Ok(()),
        Mode::None => Err("there is no local APIC"),
        _ => Err("the local APIC is in its other mode"),
    }
}

fn writes(probe: &Probe<'_>, operations: u32, mode: Mode, register: u32) -> Result<u64, Reason> {
    expect(probe, mode)?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            probe.apic.write(register, 0);
        }
    }))
}

/// Measures from the command until the handler has returned, including its EOI.
fn self_ipi(probe: &Probe<'_>, operations: u32, mode: Mode) -> Result<u64, Reason> {
    expect(probe, mode)?;
    let mut lost = false;
    enable_interrupts();
    let ticks = probe.timed(|| {
        for _ in 0..operations {
            let before = count();
            probe.apic.interrupt_self(ROW_VECTOR);
            if !wait_until(|| count() != before) {
                lost = true;
                break;
            }
        }
    });
    disable_interrupts();
    if lost { Err(HUNG) } else { Ok(ticks) }
}

/// Like `self_ipi`, with PV EOI, so that the EOI does not exit.
fn self_ipi_pv_eoi(probe: &Probe<'_>, operations: u32, mode: Mode) -> Result<u64, Reason> {
    const PV_EOI_MSR: u32 = 0x4b56_4d04;
    const ENABLED: u64 = 1;
    if !probe.cpu.has_pv_eoi() {
        return Err("no paravirtual EOI is offered");
    }
    let word = PV_EOI_WORD.as_ptr() as u64;
    write_msr(PV_EOI_MSR, word | ENABLED)
        .map_err(|_| "the MSR of the paravirtual EOI raised #GP")?;
    PV_EOI_ON.store(1, Relaxed);
    let ticks = self_ipi(probe, operations, mode);
    PV_EOI_ON.store(0, Relaxed);
    let _ = write_msr(PV_EOI_MSR, 0);
    ticks
}

pub fn xapic_tpr_write(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    writes(probe, operations, Mode::Xapic, TASK_PRIORITY)
}

pub fn x2apic_tpr_write(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    writes(probe, operations, Mode::X2apic, TASK_PRIORITY)
}

/// Writes EOI without an interrupt in service, which takes the same path.
pub fn xapic_eoi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    writes(probe, operations, Mode::Xapic, EOI)
}

pub fn x2apic_eoi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    writes(probe, operations, Mode::X2apic, EOI)
}

pub fn xapic_self_ipi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    self_ipi(probe, operations, Mode::Xapic)
}

pub fn x2apic_self_ipi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    self_ipi(probe, operations, Mode::X2apic)
}

pub fn xapic_self_ipi_pv_eoi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    self_ipi_pv_eoi(probe, operations, Mode::Xapic)
}

pub fn x2apic_self_ipi_pv_eoi(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    self_ipi_pv_eoi(probe, operations, Mode::X2apic)
}

/// Sends an IPI to a halted second CPU: measures from the command until this CPU sees that the other's handler ran.
pub fn ipi_to_vcpu(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let second = probe.second_cpu?;
    probe.counted(|| (0..operations).try_fold(0, |sum, _| Ok(sum + second.interrupt(&probe.apic)?)))
}
