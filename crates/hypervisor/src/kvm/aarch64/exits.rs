//! arm64 exits: the calls of the hypercall page as KVM forwards them.
//!
//! A call's arguments and its result are in registers of the vCPU, accessed by the vCPU's thread.

use kvm_bindings::{
    KVM_ARM_VM_SMCCC_CTRL, KVM_ARM_VM_SMCCC_FILTER, kvm_device_attr, kvm_smccc_filter,
    kvm_smccc_filter_action_KVM_SMCCC_FILTER_FWD_TO_USER,
};
use kvm_ioctls::{VcpuFd, VmFd};

use super::super::run_page::{Call, RunPage};
use super::register;
use crate::Error;

/// The first function identifier: a fast 64-bit call in the vendor specific hypervisor range (Arm DEN 0028, 2.5).
pub const FIRST: u32 = 0xc600_0000;
/// The low bits of an identifier whose number is in x2; all lower values are the number itself.
pub const ESCAPE: u16 = 0xffff;

/// Makes KVM forward the calls to the VMM.
pub fn forward(vm: &VmFd) -> Result<(), Error> {
    let filter = kvm_smccc_filter {
        base: FIRST,
        nr_functions: u32::from(ESCAPE) + 1,
        action: (kvm_smccc_filter_action_KVM_SMCCC_FILTER_FWD_TO_USER & 0xff) as u8,
        ..kvm_smccc_filter::default()
    };
    let request = kvm_device_attr {
        group: KVM_ARM_VM_SMCCC_CTRL,
        attr: KVM_ARM_VM_SMCCC_FILTER.into(),
        // The kernel reads the filter through this pointer during the call.
        addr: &raw const filter as u64,
        ..kvm_device_attr::default()
    };
    vm.set_device_attr(&request).map_err(Error::system(
        "let kvm forward hypercalls (KVM_ARM_VM_SMCCC_FILTER)",
    ))
}

/// Returns the number and the argument of the call.
pub fn decode(vcpu: &VcpuFd, call: &Call) -> Result<[u64; 2], Error> {
    let low = call.number & u64::from(ESCAPE);
    let number = if low == u64::from(ESCAPE) {
        register::get(vcpu, register::general(2))?
    } else {
        low
    };
    Ok([number, register::get(vcpu, register::general(1))?])
}

/// Stores the return value of the call.
pub fn answer(vcpu: &VcpuFd, _: &RunPage, result: u64) -> Result<(), Error> {
    register::set(vcpu, register::general(0), result)
}

/// The kernel does not count exits for host interrupts here, so they are included in all exits.
pub const HOST_INTERRUPTS: Option<&str> = None;
