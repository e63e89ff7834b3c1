//! The differences between the machines that the lab can emulate: one [`LabBoard`] for each architecture.
//!
//! A board names the packages, QEMU's arguments, the kernel parameters and the modules that give L1 a `/dev/kvm`. The
//! rest of the lab is the same for all boards.

mod aarch64;
mod choice;
mod x86_64;

pub use aarch64::{AARCH64, AARCH64_NESTING};
pub use x86_64::{X86_64, X86_64_VMX};

use super::arch::Arch;
use super::device::{Iommu, L1Device};
use crate::error::{LabError, failed};

/// An emulated machine whose CPU has virtualization.
#[derive(Clone, Copy, Debug)]
pub struct LabBoard {
    /// The architecture of L1: its kernel and its programs.
    pub arch: Arch,
    /// What emulates the machine. Bochs does not use the fields about QEMU.
    pub emulator: EmulatorKind,
    /// The file name of QEMU's program.
    pub qemu: &'static str,
    /// The oldest version of QEMU whose emulated CPU runs KVM well enough.
    pub oldest_qemu: (u32, u32),
    /// The host's packages that have QEMU, best first. `NAME/RELEASE` is a package of a Debian release, on any system.
    /// A name alone is a package in the system's own sources.
    pub qemu_packages: &'static [&'static str],
    /// Kernel packages, best first.
    pub kernel_packages: &'static [&'static str],
    /// The default kernel, one of Debian's; `None` for the one in [`kernel_packages`](Self::kernel_packages).
    pub kernel: Option<&'static str>,
    /// Modules that L1's init and `/dev/kvm` need. Their dependencies are added, and built-in modules are left out.
    pub modules: &'static [&'static str],
    /// The vendor of the CPU, for which KVM has a module; `None` if KVM is built in.
    pub vendor: Option<CpuVendor>,
    /// QEMU's machine with its options.
    pub machine: &'static str,
    /// The interrupt controllers that the machine can have, the default first; empty if there is no choice.
    pub gics: &'static [GicVersion],
    /// QEMU's CPU with its features.
    pub cpu: &'static str,
    /// CPU features to add in functional mode. Fast string instructions are turned off, because QEMU repeats such an
    /// instruction for every byte. Linux then copies and clears memory word by word.
    pub functional_cpu: &'static str,
    /// CPU features to add in deterministic mode. Random number instructions are turned off, because QEMU does not save
    /// the state of their generator.
    pub deterministic_cpu: &'static str,
    /// QEMU's arguments for the rest of the machine.
    pub arguments: &'static [&'static str],
    /// Kernel parameters for a fast start.
    pub parameters: &'static str,
    /// Kernel parameters with which KVM offers virtualization to its guests.
    pub nesting_parameters: &'static str,
    /// Additional parameters for a kernel that runs in a guest.
    pub inner_parameters: &'static str,
    /// Devices that L1 can assign to a guest.
    pub devices: &'static [L1Device],
    /// The IOMMU of these devices. A machine without such a device has no IOMMU.
    pub iommu: Iommu,
}

/// The program that emulates a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatorKind {
    /// QEMU, by TCG: AMD's SVM, and arm64's EL2.
    Qemu,
    /// Bochs: Intel's VMX, as this model has it.
    Bochs(IntelCpu),
}

/// The maximum memory of a machine in Bochs, in bytes.
const BOCHS_MEMORY: u64 = 2 << 30;

impl EmulatorKind {
    /// Returns an error if a machine in this emulator cannot have this much memory, in bytes.
    pub fn check_memory(self, memory: u64) -> Result<(), LabError> {
        match self {
            Self::Bochs(_) if memory > BOCHS_MEMORY => Err(failed!(
                "L1 would need {} MiB of memory, and Bochs has at most {}",
                memory >> 20,
                BOCHS_MEMORY >> 20
            )
            .hint("use less --memory")),
            Self::Bochs(_) | Self::Qemu => Ok(()),
        }
    }
}

/// A vendor of CPUs for whose virtualization KVM has a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuVendor {
    /// AMD, with SVM.
    Amd,
    /// Intel, with VMX.
    Intel,
}

impl CpuVendor {
    /// The name of KVM's module for its CPUs, as in sysfs.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Amd => "kvm_amd",
            Self::Intel => "kvm_intel",
        }
    }
}

/// A model of Intel's CPUs that Bochs emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntelCpu {
    /// The name by which a user asks for the CPU.
    pub name: &'static str,
    /// Bochs's name for the CPU.
    pub(crate) model: &'static str,
}

impl IntelCpu {
    /// Core i7-7800X, the oldest with posted interrupts.
    pub const SKYLAKE_X: Self = Self::new("skylake-x", "corei7_skylake_x");
    /// Core i7-4770, without posted interrupts, so KVM leaves APICv off.
    pub const HASWELL: Self = Self::new("haswell", "corei7_haswell_4770");
    /// The models on which Debian's kernels load KVM, the default first, then by their age. On Bochs's
    /// `sapphire_rapids`, Linux 6.12 panics when it sets up the FPU.
    pub const ALL: [Self; 12] = [
        Self::SKYLAKE_X,
        Self::new("penryn", "core2_penryn_t9600"),
        Self::new("lynnfield", "corei5_lynnfield_750"),
        Self::new("arrandale", "corei5_arrandale_m520"),
        Self::new("sandy-bridge", "corei7_sandy_bridge_2600k"),
        Self::new("ivy-bridge", "corei7_ivy_bridge_3770k"),
        Self::HASWELL,
        Self::new("broadwell", "broadwell_ult"),
        Self::new("cannon-lake", "corei3_cnl"),
        Self::new("ice-lake", "corei7_icelake_u"),
        Self::new("tiger-lake", "tigerlake"),
        Self::new("arrow-lake", "arrow_lake"),
    ];

    const fn new(name: &'static str, model: &'static str) -> Self {
        Self { name, model }
    }
}

/// A version of arm64's interrupt controller. KVM gives guests only the version that its host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GicVersion {
    /// GICv2, with GICv2m for MSIs.
    V2,
    /// GICv3, with the ITS for MSIs.
    V3,
}

impl GicVersion {
    /// The version number.
    pub fn version(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}
