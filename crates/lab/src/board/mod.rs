//! The differences between the machines that the lab can emulate: one [`LabBoard`] for each architecture.
//!
//! A board names the packages, QEMU's arguments, the kernel's parameters and the modules that give
//! L1 a `/dev/kvm`. The rest of the lab is the same for all boards.

mod aarch64;
mod x86_64;

pub use aarch64::{AARCH64, AARCH64_NESTING};
pub use x86_64::X86_64;

use super::arch::Arch;
use super::device::{Iommu, L1Device};

/// An emulated machine whose CPU has virtualization.
#[derive(Clone, Copy, Debug)]
pub struct LabBoard {
    /// The architecture of L1: its kernel and its programs.
    pub arch: Arch,
    /// The file name of QEMU's program.
    pub qemu: &'static str,
    /// The oldest version of QEMU whose emulated CPU runs KVM well enough.
    pub oldest_qemu: (u32, u32),
    /// Packages of the host that have QEMU, best first. `NAME/RELEASE` is that of a release of Debian, on any system; a name alone is
    /// that of the system's own sources.
    pub qemu_packages: &'static [&'static str],
    /// Packages that have a kernel, best first.
    pub kernel_packages: &'static [&'static str],
    /// The kernel of Debian if the user names none; `None` for that of [`kernel_packages`](Self::kernel_packages).
    pub kernel: Option<&'static str>,
    /// Modules that L1's init and `/dev/kvm` need; their dependencies are added, and what is built in is left out.
    pub modules: &'static [&'static str],
    /// QEMU's machine with its options.
    pub machine: &'static str,
    /// The interrupt controllers that the machine can have, the default first; empty if there is no choice.
    pub gics: &'static [GicVersion],
    /// QEMU's CPU with its features.
    pub cpu: &'static str,
    /// What is added to the features in functional mode: without string instructions that are fast, because QEMU repeats each of
    /// them for every byte. Linux then copies and clears memory by words.
    pub functional_cpu: &'static str,
    /// What is added to the features in deterministic mode: without instructions that return random numbers, because a saved
    /// machine does not have QEMU's state of these.
    pub deterministic_cpu: &'static str,
    /// QEMU's arguments for the rest of the machine.
    pub arguments: &'static [&'static str],
    /// Kernel parameters for a quick start.
    pub parameters: &'static str,
    /// Parameters with which KVM gives its guests virtualization of their own.
    pub nesting_parameters: &'static str,
    /// More parameters of a kernel that runs in a guest.
    pub inner_parameters: &'static str,
    /// Devices that a guest in L1 can be given.
    pub devices: &'static [L1Device],
    /// The IOMMU of these devices. A machine without these devices has no IOMMU.
    pub iommu: Iommu,
}

/// A version of arm64's interrupt controller. KVM gives guests the version that its host has, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GicVersion {
    /// GICv2, with GICv2m for messages.
    V2,
    /// GICv3, with the ITS for messages.
    V3,
}

impl GicVersion {
    /// Its number.
    pub fn version(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

impl LabBoard {
    /// All boards.
    pub const ALL: [Self; 2] = [X86_64, AARCH64];

    /// The board of the architecture of this name.
    pub fn of(arch: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|board| board.arch.name == arch)
    }

    /// The board whose L1 gives its guests virtualization of their own.
    pub fn nesting(self) -> Self {
        match self.arch {
            Arch::AARCH64 => AARCH64_NESTING,
            _ => self,
        }
    }

    /// Whether programs of this process's architecture run on it.
    pub fn is_native(&self) -> bool {
        self.arch.name == std::env::consts::ARCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_l1_has_the_drivers_of_its_ports() {
        for board in LabBoard::ALL.into_iter().chain([AARCH64_NESTING]) {
            for driver in ["virtio_pci", "virtio_console"] {
                assert!(
                    board.modules.contains(&driver),
                    "{}: {driver}",
                    board.arch.name
                );
            }
        }
    }

    #[test]
    fn each_pci_device_is_in_the_slot_that_its_address_names() {
        for device in X86_64.devices {
            let addresses = [Some(device.address), device.interface];
            let slots = addresses.into_iter().flatten().map(|address| {
                let slot = address.strip_prefix("0000:00:0").unwrap();
                slot.strip_suffix(".0").unwrap()
            });
            let words = device.arguments.iter();
            let fixed = words.filter_map(|word| word.split_once(",addr="));
            let fixed = fixed.map(|(_, rest)| rest.split(',').next().unwrap());
            assert!(slots.eq(fixed), "{device:?}");
        }
    }
}
