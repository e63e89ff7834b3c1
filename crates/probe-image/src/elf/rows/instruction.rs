//! Rows for single instructions that cause an exit: those that need no device, accesses to ports of a PC's devices, and
//! accesses to ports and addresses without a device.

use super::{Probe, Reason};
use crate::elf::cpu::{self, in8, out8};
use crate::elf::memory::Registers;
use crate::elf::serial::LINE_STATUS;

/// CPUID, which every hypervisor with hardware virtualization intercepts.
pub fn cpuid(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(cpu::cpuid(0, 0));
        }
    }))
}

/// KVM_HC_VAPIC_POLL_IRQ, which does nothing and returns 0. The row refuses other hypervisors, because the number has a
/// different meaning there.
pub fn hypercall(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const VAPIC_POLL_IRQ: u32 = 1;
    if probe.options.no_hypercall {
        return Err("left out by the word nohypercall");
    }
    if probe.cpu.kvm_features.is_none() {
        return Err("CPUID names no KVM, whose hypercall this is");
    }
    let amd = probe.cpu.is_amd();
    let mut result = Ok(());
    // Interrupts are enabled for the watchdog: some versions of KVM return to the same instruction forever.
    cpu::enable_interrupts();
    let ticks = probe.timed(|| {
        for _ in 0..operations {
            result = cpu::hypercall(amd, VAPIC_POLL_IRQ);
            if result.is_err() {
                break;
            }
        }
    });
    cpu::disable_interrupts();
    result.map(|()| ticks).map_err(cpu::Fault::reason)
}

/// Reads IA32_APIC_BASE, which KVM always emulates.
pub fn msr_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const APIC_BASE: u32 = 0x1b;
    cpu::read_msr(APIC_BASE).map_err(cpu::Fault::reason)?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            let _ = core::hint::black_box(cpu::read_msr(APIC_BASE));
        }
    }))
}

fn reads(probe: &Probe<'_>, operations: u32, port: u16) -> u64 {
    probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(in8(port));
        }
    })
}

/// Reads the line status of the serial port to which the image prints.
pub fn serial_lsr(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    Ok(reads(probe, operations, LINE_STATUS))
}

/// Reads counter 0 of the programmable interval timer.
pub fn pit_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const COUNTER: u16 = 0x40;
    const COMMAND: u16 = 0x43;
    // Sets up a square wave of the full period, low byte first. alioth has no PIT.
    out8(COMMAND, 0x36);
    out8(COUNTER, 0);
    out8(COUNTER, 0);
    if (0..16).all(|_| in8(COUNTER) == 0xff) {
        return Err("port 0x40 reads as ones: there is no PIT");
    }
    Ok(reads(probe, operations, COUNTER))
}

/// Reads the power management timer.
pub fn pm_timer_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let timer = probe.pm_timer.ok_or("the FADT names no PM timer")?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(timer.read());
        }
    }))
}

/// Reads register D of the real-time clock.
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

/// Writes to a port that has no device on any PC.
pub fn port_unassigned(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    // The other port that Linux writes to for short delays, because no PC has a device there.
    const PORT: u16 = 0xed;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            out8(PORT, 0);
        }
    }))
}

/// Between the I/O APIC and the local APIC, after a PC's HPET and TPM. No known VMM has RAM or a device there.
const ADDRESS: u64 = 0xfed8_0000;

fn unassigned() -> Result<Registers, Reason> {
    Registers::new(ADDRESS, 8).ok_or("the address cannot be mapped")
}

/// Stores 32 bits to an address without a device.
pub fn write_unassigned(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let place = unassigned()?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            place.write32(0, 0);
        }
    }))
}

/// Loads 32 bits from an address without a device.
pub fn read_unassigned(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    let place = unassigned()?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(place.read32(0));
        }
    }))
}
