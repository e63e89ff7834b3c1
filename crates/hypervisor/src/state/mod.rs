//! The states of a vCPU and of a guest, which a backend saves and restores ([`VcpuSnapshot`](super::VcpuSnapshot),
//! [`Vm::save`](super::Vm::save)). They hold KVM's own structures and can be written in any format of serde. No thread
//! owns them.

#[cfg(target_arch = "x86_64")]
mod exact;

#[cfg(target_arch = "x86_64")]
use kvm_bindings::{
    kvm_cpuid_entry2, kvm_debugregs, kvm_irqchip, kvm_lapic_state, kvm_mp_state, kvm_msr_entry,
    kvm_pit_state2, kvm_regs, kvm_sregs, kvm_vcpu_events, kvm_xcrs, kvm_xsave,
};
use serde::{Deserialize, Serialize};

/// The registers of a vCPU and the state of its local APIC.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registers {
    #[serde(deserialize_with = "exact::one")]
    pub sregs: kvm_sregs,
    #[serde(deserialize_with = "exact::one")]
    pub xcrs: kvm_xcrs,
    #[serde(deserialize_with = "exact::one")]
    pub debug: kvm_debugregs,
    #[serde(deserialize_with = "exact::one")]
    pub xsave: kvm_xsave,
    #[serde(deserialize_with = "exact::list")]
    pub msrs: Vec<kvm_msr_entry>,
    /// The local APIC, and whether the vCPU is halted or waits for a SIPI; `None` without a local APIC.
    #[serde(deserialize_with = "exact::lapic")]
    pub lapic: Option<(kvm_lapic_state, kvm_mp_state)>,
    #[serde(deserialize_with = "exact::one")]
    pub events: kvm_vcpu_events,
    #[serde(deserialize_with = "exact::one")]
    pub regs: kvm_regs,
}

/// The state of a vCPU. It is restored on a CPU that has the same features for guests and the same TSC rate.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VcpuState {
    #[serde(deserialize_with = "exact::list")]
    pub(crate) cpuid: Vec<kvm_cpuid_entry2>,
    pub(crate) tsc_khz: u32,
    /// The host's TSC when the vCPU was saved.
    pub(crate) host_tsc: u64,
    /// What the vCPU's TSC had more than the host's, modulo 2^64.
    pub(crate) tsc_offset: u64,
    pub(crate) registers: Registers,
}

/// The state of a guest other than its memory, its vCPUs, and what the VMM has registered with the backend.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmState {
    /// Nanoseconds of the guest's clock.
    pub(crate) clock: u64,
    /// Both PICs, the I/O APIC and the interval timer, if the kernel has them.
    #[serde(deserialize_with = "exact::controllers")]
    pub(crate) controllers: Option<([kvm_irqchip; 3], kvm_pit_state2)>,
}

/// The state of a vCPU, which has no value: no backend saves arm64's vCPUs.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Serialize, Deserialize)]
pub enum VcpuState {}

/// The state of a guest, which has no value: no backend saves arm64's guests.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Serialize, Deserialize)]
pub enum VmState {}
