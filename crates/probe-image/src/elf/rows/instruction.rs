//! Rows for instructions that leave the guest and need no device.

use super::Reason;
use crate::elf::cpu;
use crate::elf::probe::Probe;

/// Intercepted by every hypervisor with hardware virtualization.
pub fn cpuid(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    Ok(probe.timed(|| {
        for _ in 0..operations {
            core::hint::black_box(cpu::cpuid(0, 0));
        }
    }))
}

/// KVM_HC_VAPIC_POLL_IRQ, which does nothing and returns 0. It is refused by a hypervisor that is not KVM, since its
/// number means something else there.
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
    // Interrupts are let in for the watchdog: some KVMs come back to the same instruction for ever.
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

/// IA32_APIC_BASE, which KVM always emulates.
pub fn msr_read(probe: &mut Probe<'_>, operations: u32) -> Result<u64, Reason> {
    const APIC_BASE: u32 = 0x1b;
    cpu::read_msr(APIC_BASE).map_err(cpu::Fault::reason)?;
    Ok(probe.timed(|| {
        for _ in 0..operations {
            let _ = core::hint::black_box(cpu::read_msr(APIC_BASE));
        }
    }))
}
