//! Idle guests that exist for as long as L1 runs, so that KVM does not patch its code under running tests.
//!
//! KVM patches kernel code (static keys) when the first guest is created and when the last one is destroyed. It
//! does the same for the first and last vCPU without an in-kernel local APIC, with a local APIC that is off, and
//! with one that its guest has not enabled. Under QEMU 7.2 with several CPUs, another CPU can execute
//! half-patched code, and L1 panics: tests that make hundreds of guests one after the other met that in every
//! run. With one CPU that cannot happen, so no guest is held, and exact counts stay as they are.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};

/// A guest and its vCPU.
type Guest = (VmFd, VcpuFd);

/// Makes one guest of each kind, if there are several CPUs and KVM.
pub fn guests() -> Vec<Guest> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return Vec::new();
    }
    let Ok(kvm) = Kvm::new() else {
        return Vec::new();
    };
    [without_apic(&kvm), with_apic_off(&kvm)]
        .into_iter()
        .flatten()
        .collect()
}

fn without_apic(kvm: &Kvm) -> Result<Guest, kvm_ioctls::Error> {
    let vm = kvm.create_vm()?;
    let vcpu = vm.create_vcpu(0)?;
    Ok((vm, vcpu))
}

/// Makes a guest whose local APIC is off in `IA32_APIC_BASE`, and not enabled in its spurious vector register.
fn with_apic_off(kvm: &Kvm) -> Result<Guest, kvm_ioctls::Error> {
    let vm = kvm.create_vm()?;
    vm.create_irq_chip()?;
    let vcpu = vm.create_vcpu(0)?;
    let mut registers = vcpu.get_sregs()?;
    registers.apic_base = 0;
    vcpu.set_sregs(&registers)?;
    Ok((vm, vcpu))
}
