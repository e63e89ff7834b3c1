//! Why a device has no IOMMU group, and what mends it. What turns an IOMMU on: Linux's
//! `Documentation/admin-guide/kernel-parameters.txt`, and the firmware's tables DMAR (Intel) and IVRS (AMD).

use super::cpu::CpuVendor;
use super::files;
use super::root::Host;

/// Why a device has no IOMMU group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoIommu {
    /// The group is one of vfio's no-IOMMU mode, in which nothing confines the device.
    UnsafeMode,
    /// Other devices of the host have groups.
    NotServed,
    /// The kernel's command line turns the IOMMU off.
    TurnedOff {
        /// The option.
        option: String,
    },
    /// An Intel host whose kernel waits for the option.
    IntelOptionMissing,
    /// An Intel host whose firmware describes no IOMMU.
    IntelNotDescribed,
    /// An AMD host whose firmware describes no IOMMU.
    AmdNotDescribed,
    /// An Arm host without the driver of its SMMU, or without an SMMU.
    ArmNoSmmu,
    /// The firmware describes an IOMMU and nothing turns it off; the kernel's log says more.
    Unknown,
}

const OFF: [&str; 3] = ["iommu=off", "intel_iommu=off", "amd_iommu=off"];

impl NoIommu {
    /// Why a device that has no group has none.
    pub(super) fn read(host: &Host) -> Self {
        if !files::names(&host.sys("kernel/iommu_groups")).is_empty() {
            return Self::NotServed;
        }
        let options = files::text(&host.proc("cmdline")).unwrap_or_default();
        let mut options = options.split_whitespace();
        // The kernel obeys the last of several.
        if let Some(option) = options.clone().rfind(|option| OFF.contains(option)) {
            return Self::TurnedOff {
                option: option.to_owned(),
            };
        }
        let described = |table| host.sys(format!("firmware/acpi/tables/{table}")).exists();
        match CpuVendor::read(host) {
            CpuVendor::Intel if !described("DMAR") => Self::IntelNotDescribed,
            CpuVendor::Intel if !options.any(|option| option.starts_with("intel_iommu=on")) => {
                Self::IntelOptionMissing
            }
            CpuVendor::Amd if !described("IVRS") => Self::AmdNotDescribed,
            CpuVendor::Arm => Self::ArmNoSmmu,
            _ => Self::Unknown,
        }
    }

    /// What the reader is told beside "no iommu group".
    pub(super) fn reason(&self) -> String {
        match self {
            Self::UnsafeMode => {
                "vfio's no-iommu mode is on, in which nothing confines the device".to_owned()
            }
            Self::NotServed => "the host's iommu does not serve this device".to_owned(),
            Self::TurnedOff { option } => {
                format!("the kernel's command line turns the iommu off ({option})")
            }
            Self::IntelOptionMissing => {
                "the kernel does not use the iommu (VT-d) without intel_iommu=on".to_owned()
            }
            Self::IntelNotDescribed => {
                "the firmware describes no iommu (VT-d, table DMAR)".to_owned()
            }
            Self::AmdNotDescribed => {
                "the firmware describes no iommu (AMD-Vi, table IVRS)".to_owned()
            }
            Self::ArmNoSmmu => "the kernel drives no smmu".to_owned(),
            Self::Unknown => "the kernel uses no iommu".to_owned(),
        }
    }

    pub(super) fn fix(&self) -> Vec<String> {
        let lines: &[&str] = match self {
            Self::UnsafeMode => &[
                "echo N > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
                "# turn the iommu on, and start the host again",
            ],
            Self::NotServed => &[
                "# no command mends it: the firmware puts the device behind no iommu",
                "# (in a device tree, its node has no iommus property)",
            ],
            Self::TurnedOff { option } => {
                return vec![format!(
                    "# remove {option} from the kernel's command line, and start the host again"
                )];
            }
            Self::IntelOptionMissing => &[
                "# add intel_iommu=on to the kernel's command line (GRUB_CMDLINE_LINUX in",
                "# /etc/default/grub, then update-grub), and start the host again",
            ],
            Self::IntelNotDescribed => &[
                "# turn VT-d on in the firmware's setup (in a virtual machine, its VMM gives it an",
                "# iommu: QEMU's -device intel-iommu), add intel_iommu=on to the kernel's command",
                "# line, and start the host again",
            ],
            Self::AmdNotDescribed => &[
                "# turn AMD-Vi (IOMMU) on in the firmware's setup (in a virtual machine, its VMM",
                "# gives it an iommu: QEMU's -device amd-iommu), and start the host again; the",
                "# kernel needs no option",
            ],
            Self::ArmNoSmmu => &[
                "# use a kernel with CONFIG_ARM_SMMU and CONFIG_ARM_SMMU_V3, on a machine whose",
                "# firmware describes an smmu (in a virtual machine, QEMU's -machine",
                "# virt,iommu=smmuv3); the kernel needs no option",
            ],
            Self::Unknown => &["dmesg | grep -i -e iommu -e dmar -e smmu"],
        };
        lines.iter().map(|line| (*line).to_owned()).collect()
    }
}
