//! Guests that exist for as long as L1 runs, and do nothing.
//!
//! KVM rewrites kernel code (static keys) when the first guest comes and when the last one goes, and
//! again for the first vCPU and the last one without a local APIC in the kernel, with one that is
//! off, and with one that its guest has not enabled. Under QEMU 7.2 with several CPUs another one can
//! run into such code half written, and L1 panics: tests that make hundreds of guests one after the
//! other met that in every run. With one CPU there is nobody to run into it, and nothing is held, so
//! that exact counts stay what they are.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};

/// A guest and its vCPU.
type Guest = (VmFd, VcpuFd);

/// Makes one of each kind, if there are several CPUs and KVM.
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

/// Its APIC is off by `IA32_APIC_BASE`, and not enabled by its spurious vector register either.
fn with_apic_off(kvm: &Kvm) -> Result<Guest, kvm_ioctls::Error> {
    let vm = kvm.create_vm()?;
    vm.create_irq_chip()?;
    let vcpu = vm.create_vcpu(0)?;
    let mut registers = vcpu.get_sregs()?;
    registers.apic_base = 0;
    vcpu.set_sregs(&registers)?;
    Ok((vm, vcpu))
}
