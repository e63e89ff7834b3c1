//! Idle guests that exist for as long as L1 runs, so that KVM does not patch its code under running tests.
//!
//! Linux patches code (static keys) when the first guest is created and when the last one is destroyed: only while
//! there are guests does its scheduler tell KVM that a vCPU comes to a CPU or leaves it (`preempt_notifier_key`). On
//! x86-64 KVM does the same for the first and last vCPU without an in-kernel local APIC, with a local APIC that is off,
//! and with one that its guest has not enabled. Under QEMU 7.2 with several CPUs, another CPU can go on with the old
//! code, or execute half of the new: L1 panics, or a vCPU runs on a CPU that has not loaded its state (docs/emulator-bugs.md).
//! With one CPU that cannot happen, so no guest is held, and exact counts stay as they are.

use kvm_ioctls::{Kvm, VcpuFd};

/// Makes one guest of each kind, if there are several CPUs and KVM. A guest exists as long as its vCPU, which is returned. Its own
/// descriptor is closed, because `vmbell top` and others take a process with one for a VMM.
pub fn guests() -> Vec<VcpuFd> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return Vec::new();
    }
    let Ok(kvm) = Kvm::new() else {
        return Vec::new();
    };
    let kinds = [
        plain(&kvm),
        #[cfg(target_arch = "x86_64")]
        with_apic_off(&kvm),
    ];
    kinds.into_iter().flatten().collect()
}

/// Makes a guest without an in-kernel interrupt controller.
fn plain(kvm: &Kvm) -> Result<VcpuFd, kvm_ioctls::Error> {
    let vm = kvm.create_vm()?;
    vm.create_vcpu(0)
}

/// Makes a guest whose local APIC is off in `IA32_APIC_BASE`, and not enabled in its spurious vector register.
#[cfg(target_arch = "x86_64")]
fn with_apic_off(kvm: &Kvm) -> Result<VcpuFd, kvm_ioctls::Error> {
    let vm = kvm.create_vm()?;
    vm.create_irq_chip()?;
    let vcpu = vm.create_vcpu(0)?;
    let mut registers = vcpu.get_sregs()?;
    registers.apic_base = 0;
    vcpu.set_sregs(&registers)?;
    Ok(vcpu)
}
