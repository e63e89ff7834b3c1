//! The ioctls of an x86-64 vCPU that kvm-ioctls has only for other architectures or other descriptors. The calling
//! thread makes the ioctl.
#![allow(unsafe_code)]

use std::io;

use kvm_bindings::{
    KVM_CAP_ENFORCE_PV_FEATURE_CPUID, KVMIO, kvm_device_attr, kvm_enable_cap, kvm_xsave,
};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, KVMIO, 0xe2, kvm_device_attr);
ioctl_iow_nr!(KVM_ENABLE_CAP, KVMIO, 0xa3, kvm_enable_cap);
ioctl_iow_nr!(KVM_X86_SETUP_MCE, KVMIO, 0x9c, u64);

/// Hides from the vCPU all paravirtual features that its CPUID does not show.
pub fn enforce_features(vcpu: &VcpuFd) -> io::Result<()> {
    let mut request = kvm_enable_cap {
        cap: KVM_CAP_ENFORCE_PV_FEATURE_CPUID,
        ..kvm_enable_cap::default()
    };
    request.args[0] = 1;
    // SAFETY: `vcpu` is an open vCPU, and `request` is the structure that the call reads.
    if unsafe { ioctl_with_ref(vcpu, KVM_ENABLE_CAP(), &request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets the number of a vCPU's machine check banks: at least one.
pub fn set_mce_banks(vcpu: &VcpuFd, banks: u8) -> io::Result<()> {
    let capability = u64::from(banks);
    // SAFETY: `vcpu` is an open vCPU, `capability` the 64-bit value that the call reads.
    if unsafe { ioctl_with_ref(vcpu, KVM_X86_SETUP_MCE(), &capability) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets an attribute of a vCPU to a 64-bit value.
pub fn set_vcpu_attribute(vcpu: &VcpuFd, group: u32, number: u32, value: u64) -> io::Result<()> {
    let attribute = kvm_device_attr {
        group,
        attr: number.into(),
        addr: &raw const value as u64,
        ..kvm_device_attr::default()
    };
    // SAFETY: `vcpu` is an open vCPU, and `attribute` is the structure that the call reads. Its `addr` is the address
    // of `value`, which lives through the call.
    if unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns an attribute of a vCPU that is a 64-bit value.
pub fn vcpu_attribute(vcpu: &VcpuFd, group: u32, number: u32) -> io::Result<u64> {
    let mut value = 0_u64;
    let attribute = kvm_device_attr {
        group,
        attr: number.into(),
        addr: &raw mut value as u64,
        ..kvm_device_attr::default()
    };
    // SAFETY: `vcpu` is an open vCPU, and `attribute` is the structure that the call reads. It writes 8 bytes to
    // `addr`, the address of `value`, which lives through the call and is not used during it.
    if unsafe { ioctl_with_ref(vcpu, KVM_GET_DEVICE_ATTR(), &attribute) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

/// Sets the FPU and vector registers of a vCPU, in the layout of XSAVE.
pub fn set_xsave(vcpu: &VcpuFd, state: &kvm_xsave) -> io::Result<()> {
    // SAFETY: the kernel reads 4096 bytes, the size of `state`, unless the process was permitted larger states
    // (`ARCH_REQ_XCOMP_GUEST_PERM`), which it does not ask for.
    unsafe { vcpu.set_xsave(state) }.map_err(io::Error::from)
}
