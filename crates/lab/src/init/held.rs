//! Idle guests that exist as long as L1 runs, so that KVM does not patch its code while tests are running.
//!
//! Linux patches code (static keys) when the first guest is created and when the last guest is destroyed: its scheduler
//! notifies KVM when a vCPU enters or leaves a CPU only while there are guests (`preempt_notifier_key`). On x86-64 KVM
//! does the same for the first and last vCPU that has no in-kernel local APIC, has its local APIC off, or has not
//! enabled it. Under QEMU 7.2 with several CPUs, another CPU may continue with the old code or execute half of the new
//! code: L1 panics, or a vCPU runs on a CPU that has not loaded its state (docs/emulator-bugs.md). This cannot happen
//! with one CPU, so no guests are kept, and exact counts do not change.

use kvm_ioctls::{Kvm, VcpuFd};

/// Makes one guest of each kind, if there is KVM and more than one CPU. A guest exists as long as its vCPU, which is
/// returned. The guest's descriptor is closed, because `vmbell top` and others take a process that has one for a VMM.
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
