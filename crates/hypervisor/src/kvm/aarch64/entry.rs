//! The initial registers of a vCPU, set by the thread that owns the vCPU before its first run: EL1 with the MMU and the
//! caches on (Arm DDI 0487, D19.2).
//! KVM itself resets a vCPU when another vCPU switches it on (Linux `arch/arm64/kvm/psci.c`).

use kvm_bindings::{KVM_MP_STATE_STOPPED, kvm_mp_state};
use kvm_ioctls::VcpuFd;

use super::super::guest::KvmGuest;
use super::{boot, ioctl, register};
use crate::{EntryPoint, Error};

/// EL1 with SP_EL1, and D, A, I and F masked.
const PSTATE: u64 = 0x3c5;
/// Two memory types: 0 is Device-nGnRnE, 1 is Normal, write-back, allocated on reads and writes.
const MAIR: u64 = 0xff << 8;
/// TTBR0_EL1 translates 32-bit addresses with 4 KiB pages, and TTBR1_EL1 translates no addresses; the tables are in
/// write-back, inner shareable memory; physical addresses have 36 bits.
const TCR: u64 = 32 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 1 << 32;
/// The reserved bits that must be 1, and the enable bits of the MMU, the data cache and the instruction cache.
const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 12;
/// Neither EL1 nor EL0 traps on floating point and SIMD.
const CPACR: u64 = 3 << 20;

/// Hands out a vCPU that was created with the guest, once.
pub fn vcpu(guest: &KvmGuest, index: u32) -> Result<VcpuFd, Error> {
    let vcpus = guest.vcpus;
    guest.parts.take(index).ok_or(Error::Vcpu { index, vcpus })
}

/// Sets the registers of a vCPU for its entry point.
pub fn set(vcpu: &VcpuFd, guest: &KvmGuest, index: u32, entry: EntryPoint) -> Result<(), Error> {
    let (pc, sp, arguments) = match entry {
        EntryPoint::Program { pc, sp, arguments } => (pc, sp, arguments),
        EntryPoint::Secondary if index == 0 => {
            return Err(Error::Entry {
                entry: "CPU_ON",
                guest: "this vcpu as its first",
            });
        }
        EntryPoint::Secondary => return switch_off(vcpu),
        EntryPoint::MmuOff { pc, tree } => return mmu_off(vcpu, guest, index, pc, tree),
        EntryPoint::Protected { .. } | EntryPoint::RealMode { .. } => {
            return Err(Error::Entry {
                entry: "a mode of x86",
                guest: "arm64 vcpus",
            });
        }
    };
    let [first, second] = arguments;
    let values = [
        (register::MAIR, MAIR),
        (register::TCR, TCR),
        (register::TTBR0, boot::LEVEL_1),
        (register::VBAR, boot::vectors(index)),
        (register::CPACR, CPACR),
        (register::SCTLR, SCTLR),
        (register::PSTATE, PSTATE),
        (register::PC, pc),
        (register::SP_EL1, sp),
        (register::general(0), first),
        (register::general(1), second),
    ];
    for (register, value) in values {
        register::set(vcpu, register, value)?;
    }
    share_counter_once(vcpu, guest, index)
}

/// Sets `pc` and `x0`. The vCPU was created with its MMU off and all exceptions masked.
fn mmu_off(vcpu: &VcpuFd, guest: &KvmGuest, index: u32, pc: u64, tree: u64) -> Result<(), Error> {
    register::set(vcpu, register::PC, pc)?;
    register::set(vcpu, register::general(0), tree)?;
    share_counter_once(vcpu, guest, index)
}

/// Sets the counter once, on the first vCPU, for all vCPUs, unless the kernel set it when the guest was created.
fn share_counter_once(vcpu: &VcpuFd, guest: &KvmGuest, index: u32) -> Result<(), Error> {
    if index == 0 && !guest.system.host.counter_offset {
        share_counter(vcpu)?;
    }
    Ok(())
}

/// Makes the vCPU wait for CPU_ON, at which KVM resets it.
fn switch_off(vcpu: &VcpuFd) -> Result<(), Error> {
    let mp_state = KVM_MP_STATE_STOPPED;
    vcpu.set_mp_state(kvm_mp_state { mp_state })
        .map_err(Error::system("switch a vcpu off (KVM_SET_MP_STATE)"))
}

/// Sets the counter of all vCPUs as close to the host's as a kernel before 6.4 allows. The value lags by the time
/// between the call and its effect, so the shortest of several attempts is kept.
fn share_counter(vcpu: &VcpuFd) -> Result<(), Error> {
    const ATTEMPTS: usize = 8;
    let mut shortest = u64::MAX;
    for _ in 0..ATTEMPTS {
        let start = ioctl::counter();
        // Assumes that the kernel reads its counter in the middle of the call.
        let half = if shortest == u64::MAX {
            0
        } else {
            shortest / 2
        };
        register::set(vcpu, register::COUNTER, start + half)?;
        let took = ioctl::counter() - start;
        if took <= shortest && shortest != u64::MAX {
            return Ok(());
        }
        shortest = shortest.min(took);
    }
    Ok(())
}
