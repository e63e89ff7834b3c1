//! The numbers of a vCPU's registers, and access to them (Linux Documentation/virt/kvm/api.rst, 4.68). Used by the
//! thread that owns the vCPU.

use std::mem::offset_of;

use kvm_bindings::{
    KVM_REG_ARM_CORE, KVM_REG_ARM64, KVM_REG_ARM64_SYSREG, KVM_REG_SIZE_U64, kvm_regs, user_pt_regs,
};
use kvm_ioctls::VcpuFd;

use crate::Error;

/// The program counter.
pub const PC: u64 = core(offset_of!(kvm_regs, regs) + offset_of!(user_pt_regs, pc));
/// PSTATE.
pub const PSTATE: u64 = core(offset_of!(kvm_regs, regs) + offset_of!(user_pt_regs, pstate));
/// The stack pointer of EL1.
pub const SP_EL1: u64 = core(offset_of!(kvm_regs, sp_el1));

/// SCTLR_EL1: the MMU and the caches.
pub const SCTLR: u64 = system(3, 0, 1, 0, 0);
/// CPACR_EL1: floating point and SIMD.
pub const CPACR: u64 = system(3, 0, 1, 0, 2);
/// TTBR0_EL1: the page tables.
pub const TTBR0: u64 = system(3, 0, 2, 0, 0);
/// TCR_EL1: the page table format.
pub const TCR: u64 = system(3, 0, 2, 0, 2);
/// MAIR_EL1: the memory types.
pub const MAIR: u64 = system(3, 0, 10, 2, 0);
/// VBAR_EL1: the exception vectors.
pub const VBAR: u64 = system(3, 0, 12, 0, 0);
/// CNTVCT_EL0 of all vCPUs (`KVM_REG_ARM_TIMER_CNT`; by an old mistake, its number is the encoding of CNTV_CVAL_EL0).
pub const COUNTER: u64 = system(3, 3, 14, 3, 2);

/// Returns the number of the general register `x<number>`.
pub const fn general(number: usize) -> u64 {
    core(offset_of!(kvm_regs, regs) + offset_of!(user_pt_regs, regs) + 8 * number)
}

const fn core(offset: usize) -> u64 {
    KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE as u64 | (offset / 4) as u64
}

const fn system(op0: u64, op1: u64, crn: u64, crm: u64, op2: u64) -> u64 {
    let place = op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2;
    KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM64_SYSREG as u64 | place
}

/// Sets a register.
pub fn set(vcpu: &VcpuFd, register: u64, value: u64) -> Result<(), Error> {
    vcpu.set_one_reg(register, &value.to_ne_bytes())
        .map(drop)
        .map_err(Error::system("set a register of the vcpu"))
}

/// Reads a register.
pub fn get(vcpu: &VcpuFd, register: u64) -> Result<u64, Error> {
    let mut value = [0; 8];
    vcpu.get_one_reg(register, &mut value)
        .map_err(Error::system("read a register of the vcpu"))?;
    Ok(u64::from_ne_bytes(value))
}
