//! What `/dev/kvm` offers on x86-64, queried once by the thread that opens it, and the capabilities that follow from
//! it.
//!
//! A capability that only a guest can show is found by running a guest once, on the calling thread ([`trial`]).

use std::sync::{Arc, OnceLock};

use kvm_bindings::{CpuId, KVM_CAP_EXIT_HYPERCALL, KVM_CAP_SET_TSS_ADDR, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::Kvm;

use super::super::system::System;
use super::trial;
use crate::{Capability, Error, Support};

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

/// Returns whether the backend has `capability`, for capabilities that depend on the architecture.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    match capability {
        Capability::CountsLightExits => trial::light_exits(system),
        Capability::NativeKernelMode => trial::native_kernel_mode(system),
        Capability::EndOfInterrupt => trial::ends_of_interrupts(system),
        Capability::Virtualization if !has_virtualization(&system.host.cpuid) => Support::No(
            "kvm gives its guests neither SVM nor VMX: load kvm_amd or kvm_intel with nested=1"
                .to_owned(),
        ),
        Capability::HypercallExit if !system.host.hypercall_exits => {
            Support::No("this kernel sends no hypercall on to the VMM (Linux 5.14)".to_owned())
        }
        Capability::HypercallInstruction | Capability::HypercallExit => trial::hypercalls(system),
        // Ports, kernels, virtualization and interrupts.
        _ => Support::Yes,
    }
}

/// Returns whether a CPUID shows VMX (Intel SDM 2A, CPUID.1) or SVM (AMD APM 3, CPUID 8000_0001h).
fn has_virtualization(cpuid: &CpuId) -> bool {
    let mut leaves = cpuid.as_slice().iter();
    leaves.any(|leaf| match leaf.function {
        1 => leaf.ecx & 1 << 5 != 0,
        0x8000_0001 => leaf.ecx & 1 << 2 != 0,
        _ => false,
    })
}
