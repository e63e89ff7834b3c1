//! The guest's `cpuid`: all that KVM supports on this CPU, with the guest's own topology. Set by the thread that
//! creates the vCPU.

use std::io;

use kvm_bindings::CpuId;
use kvm_ioctls::VcpuFd;
use vmbell::irq::Irqchip;
use vmbell_core::pv_eoi::FEATURE_BIT;

use super::ioctl;
use super::topology::Topology;
use crate::{CpuFeatures, CpuidRegister, Error};

const LEAF_FEATURES: u32 = 1;
/// `KVM_CPUID_FEATURES` of Linux `uapi/asm/kvm_para.h`.
const LEAF_KVM_FEATURES: u32 = 0x4000_0001;
/// CPUID.1:ECX, x2APIC mode, which the kernel's local APIC supports on any CPU.
const X2APIC: u32 = 1 << 21;
/// CPUID.1:ECX, TSC-deadline timer, which needs a local APIC in the kernel.
const TSC_DEADLINE: u32 = 1 << 24;
/// CPUID.1:ECX, a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;
/// CPUID.1:ECX, XSAVE.
pub const XSAVE: u32 = 1 << 26;
/// CPUID.7.0:EBX, FSGSBASE.
pub const FSGSBASE: u32 = 1;

/// What a vCPU's CPUID has in addition to what KVM supports.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub topology: Topology,
    pub irqchip: Irqchip,
    /// Whether paravirtual EOI is offered; if not, the guest cannot use its MSR either.
    pub pv_eoi: bool,
    pub hidden: CpuFeatures,
}

/// Sets the CPUID of a vCPU.
pub fn set(fd: &VcpuFd, supported: &CpuId, offer: Offer) -> Result<(), Error> {
    let mut cpuid = of_vcpu(supported, offer)?;
    hide(&mut cpuid, offer.hidden);
    fd.set_cpuid2(&cpuid)
        .map_err(Error::system("set the vcpu's cpuid"))?;
    if offer.pv_eoi {
        return Ok(());
    }
    // Without this ioctl, the MSR would work even though the guest's CPUID does not offer PV EOI.
    ioctl::enforce_features(fd).map_err(Error::system("hide registers that the vcpu's cpuid hides"))
}

fn of_vcpu(supported: &CpuId, offer: Offer) -> Result<CpuId, Error> {
    let Offer {
        topology,
        irqchip,
        pv_eoi,
        ..
    } = offer;
    let mut cpuid = supported.clone();
    let is_amd = has_vmmcall(supported);
    topology
        .set(&mut cpuid, is_amd)
        .map_err(|error| Error::System {
            operation: "add the topology to the vcpu's cpuid",
            source: io::Error::other(error),
        })?;
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            LEAF_FEATURES => {
                entry.ecx |= HYPERVISOR;
                if irqchip != Irqchip::None {
                    entry.ecx |= TSC_DEADLINE | X2APIC;
                }
            }
            LEAF_KVM_FEATURES if !pv_eoi => entry.eax &= !(1 << FEATURE_BIT),
            _ => {}
        }
    }
    Ok(cpuid)
}

/// Returns whether x2APIC mode is among the hidden features.
pub fn hides_x2apic(hidden: CpuFeatures) -> bool {
    hidden.bits(LEAF_FEATURES, 0, CpuidRegister::Ecx) & X2APIC != 0
}

/// Removes the hidden features.
fn hide(cpuid: &mut CpuId, hidden: CpuFeatures) {
    for entry in cpuid.as_mut_slice() {
        let bits = |register| hidden.bits(entry.function, entry.index, register);
        let [eax, ebx, ecx, edx] = [
            CpuidRegister::Eax,
            CpuidRegister::Ebx,
            CpuidRegister::Ecx,
            CpuidRegister::Edx,
        ]
        .map(bits);
        entry.eax &= !eax;
        entry.ebx &= !ebx;
        entry.ecx &= !ecx;
        entry.edx &= !edx;
    }
}

/// Returns the register of a leaf (subleaf 0) that `read` picks from `[eax, ebx, ecx, edx]`; 0 if the leaf does not
/// exist.
pub fn register(cpuid: &CpuId, function: u32, read: impl Fn(&[u32; 4]) -> u32) -> u32 {
    let entry = cpuid
        .as_slice()
        .iter()
        .find(|entry| entry.function == function && entry.index == 0);
    entry.map_or(0, |entry| {
        read(&[entry.eax, entry.ebx, entry.ecx, entry.edx])
    })
}

/// Returns whether the hypercall instruction is `vmmcall`, as on AMD and Hygon CPUs.
pub fn has_vmmcall(cpuid: &CpuId) -> bool {
    let vendor = |name: &[u8; 12]| {
        let word =
            |at: usize| u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]);
        [1, 3, 2]
            .iter()
            .zip([0, 4, 8])
            .all(|(place, at)| register(cpuid, 0, |leaf| leaf[*place]) == word(at))
    };
    vendor(b"AuthenticAMD") || vendor(b"HygonGenuine")
}
