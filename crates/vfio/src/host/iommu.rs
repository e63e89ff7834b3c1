//! IOMMU groups: the devices that the IOMMU cannot isolate from each other, so that they can only be assigned together,
//! and why a device has no group.
//!
//! `iommu_device_use_default_domain` in Linux's `drivers/iommu/iommu.c` decides which drivers a group may have while a
//! guest uses it. The firmware's tables DMAR (Intel) and IVRS (AMD) and the kernel's parameters (Linux
//! `Documentation/admin-guide/kernel-parameters.txt`) decide if an IOMMU is on. All functions work on any thread.

use super::bus::{Bus, is_vfio};
use super::device::Identity;
use super::files::{self, Host};

/// A device in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The device's name on its bus.
    pub name: String,
    /// The device's bus, if VFIO can assign devices of that bus.
    pub bus: Option<Bus>,
    /// The driver that the device is bound to.
    pub driver: Option<String>,
    /// Whether the device is a bridge between PCI buses.
    pub is_bridge: bool,
}

impl Member {
    /// Whether a guest may have the group while this device stays as it is. Drivers that do not use DMA are no
    /// obstacle: VFIO's drivers, pci-stub and the driver of PCI Express ports (`driver_managed_dma` of Linux's
    /// drivers).
    pub fn leaves_the_group_viable(&self) -> bool {
        match self.driver.as_deref() {
            None | Some("pci-stub") => true,
            Some("pcieport") => self.is_bridge,
            Some(driver) => is_vfio(driver),
        }
    }
}

/// A group of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's number, which is its name in `/dev/vfio`.
    pub number: u32,
    /// The devices in the group, sorted by name.
    pub members: Vec<Member>,
}

impl Host {
    /// Reads the IOMMU group of that number with its members; it has no members if there is no such group.
    pub fn group(&self, number: u32) -> Group {
        let folder = self.sys(format!("kernel/iommu_groups/{number}/devices"));
        let members = files::names(&folder).into_iter().map(|name| {
            let device = folder.join(&name);
            let bus = files::link_name(&device.join("subsystem")).and_then(|bus| Bus::named(&bus));
            let class = bus.map(|bus| Identity::read(bus, &device));
            Member {
                bus,
                driver: files::link_name(&device.join("driver")),
                is_bridge: matches!(class, Some(Identity::Pci { class, .. }) if class >> 8 == 0x0604),
                name,
            }
        });
        Group {
            number,
            members: members.collect(),
        }
    }
}

/// Why a device has no IOMMU group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoIommu {
    /// The group is from vfio's no-IOMMU mode, in which nothing confines the device.
    UnsafeMode,
    /// Other devices of the host have groups.
    NotServed,
    /// The kernel's command line turns the IOMMU off.
    TurnedOff {
        /// The option.
        option: String,
    },
    /// An Intel host whose kernel turns the IOMMU on only if the option is given.
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
    /// Finds out why a device has no group.
    pub(super) fn read(host: &Host) -> Self {
        if !files::names(&host.sys("kernel/iommu_groups")).is_empty() {
            return Self::NotServed;
        }
        let options = files::text(&host.proc("cmdline")).unwrap_or_default();
        let mut options = options.split_whitespace();
        // The kernel obeys the last of several options.
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

    /// Returns the text that follows "no iommu group" in a message.
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CpuVendor {
    Intel,
    Amd,
    Arm,
    Other,
}

impl CpuVendor {
    pub(super) fn read(host: &Host) -> Self {
        let text = files::long_text(&host.proc("cpuinfo")).unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
        };
        match field("vendor_id").as_deref() {
            Some("GenuineIntel") => Self::Intel,
            Some("AuthenticAMD" | "HygonGenuine") => Self::Amd,
            None if field("CPU implementer").is_some() => Self::Arm,
            _ => Self::Other,
        }
    }
}
