//! What `/dev/kvm` offers on x86-64, queried once by the thread that opens it.

use std::sync::OnceLock;

use kvm_bindings::{CpuId, KVM_CAP_EXIT_HYPERCALL, KVM_CAP_SET_TSS_ADDR, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::Kvm;

use crate::{Error, Support};

/// `KVM_HC_MAP_GPA_RANGE` of Linux `uapi/linux/kvm_para.h`: the only hypercall that KVM can forward to the VMM.
pub const HC_MAP_GPA_RANGE: u64 = 12;

/// What `/dev/kvm` requires in addition to support in the kernel.
pub const MISSING: &str =
    "load the kvm_intel or kvm_amd module and turn virtualization on in the firmware";

/// x86-64 has ports, so there is no reason.
pub const NO_PORTS: Option<&str> = None;

/// The extensions that the backend needs in addition to those needed on every architecture.
pub const NEEDED: [(u32, &str, &str); 1] =
    [(KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR", "2.6.24")];

/// What `/dev/kvm` answered.
#[derive(Debug)]
pub struct Host {
    /// The CPUID that KVM supports on this CPU.
    pub cpuid: CpuId,
    /// Whether KVM can forward a hypercall to the VMM.
    pub hypercall_exits: bool,
    /// Whether the hypercall instruction works; empty before the trial.
    pub hypercalls: OnceLock<Support>,
    /// Whether an interrupt stays in service until the guest's EOI; empty before the trial.
    pub ends_of_interrupts: OnceLock<Support>,
    /// Whether the kernel's statistics count light exits; empty before the trial.
    pub light_exits: OnceLock<Support>,
    /// Whether ring 0 runs on the CPU; empty before the trial.
    pub native_kernel_mode: OnceLock<Support>,
}

impl Host {
    pub fn ask(kvm: &Kvm) -> Result<Self, Error> {
        let cpuid = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::system("ask kvm for the cpuid it supports"))?;
        let kinds = kvm.check_extension_raw(KVM_CAP_EXIT_HYPERCALL.into());
        Ok(Self {
            cpuid,
            hypercall_exits: kinds & (1 << HC_MAP_GPA_RANGE) != 0,
            hypercalls: OnceLock::new(),
            ends_of_interrupts: OnceLock::new(),
            light_exits: OnceLock::new(),
            native_kernel_mode: OnceLock::new(),
        })
    }
}
