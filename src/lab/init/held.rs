//! A guest that exists for as long as L1 runs, and does nothing.
//!
//! KVM rewrites kernel code when the first guest comes and when the last one goes (static keys). Under
//! QEMU 7.2 with several CPUs another one can run into such code half written, and L1 panics: tests
//! that make hundreds of guests one after the other met that in every run. With one CPU there is
//! nobody to run into it, and nothing is held, so that exact counts stay what they are.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};

/// Makes it, if there are several CPUs and KVM.
pub fn guest() -> Option<(VmFd, VcpuFd)> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return None;
    }
    let vm = Kvm::new().and_then(|kvm| kvm.create_vm()).ok()?;
    let vcpu = vm.create_vcpu(0).ok()?;
    Some((vm, vcpu))
}
