//! The arm64 ioctls that kvm-ioctls does not have. The calling thread makes the ioctl.
#![allow(unsafe_code)]

use std::io;

use kvm_bindings::{KVMIO, kvm_arm_counter_offset};
use kvm_ioctls::VmFd;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(
    KVM_ARM_SET_COUNTER_OFFSET,
    KVMIO,
    0xb5,
    kvm_arm_counter_offset
);

/// Makes the counters of a guest equal to the host's: their offset is 0.
pub fn share_counter(vm: &VmFd) -> io::Result<()> {
    let offset = kvm_arm_counter_offset::default();
    // SAFETY: `vm` is an open VM, and `offset` is the structure that the call reads.
    if unsafe { ioctl_with_ref(vm, KVM_ARM_SET_COUNTER_OFFSET(), &offset) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reads the host's counter from CNTVCT_EL0.
pub fn counter() -> u64 {
    let now: u64;
    // SAFETY: reads a register that Linux lets every process read; no memory is touched.
    unsafe {
        std::arch::asm!("isb", "mrs {now}, cntvct_el0", now = out(reg) now, options(nostack));
    };
    now
}
