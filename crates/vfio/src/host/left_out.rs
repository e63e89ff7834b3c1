//! Devices that nobody assigns: those that the rest of the host hangs on, and those that VFIO has no name for.

use std::path::Path;

use super::bus::Bus;
use super::device::HostDevice;
use super::files;
use super::identity::Identity;

/// Why a device is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is a bridge; what is behind it can be assigned.
    Bridge,
    /// It is an IOMMU, an interrupt controller or a PCI host.
    Infrastructure,
    /// Neither a device tree nor ACPI describes registers of it.
    NotDescribed,
}

impl LeftOut {
    /// What the device is, for a sentence that begins with its name.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Bridge => "is a bridge: assign what is behind it",
            Self::Infrastructure => "is an iommu, an interrupt controller or a pci host",
            Self::NotDescribed => "has no registers that a device tree or acpi describes",
        }
    }
}

impl HostDevice {
    /// Why the device is no candidate; `None` if it is one.
    pub fn left_out(&self) -> Option<LeftOut> {
        match (self.bus, &self.identity) {
            (Bus::Pci, Identity::Pci { class, .. }) => match class >> 8 {
                0x0600..=0x06ff => Some(LeftOut::Bridge),
                0x0806 => Some(LeftOut::Infrastructure),
                _ => None,
            },
            _ => described(&self.path, self.group),
        }
    }
}

fn described(device: &Path, group: Option<u32>) -> Option<LeftOut> {
    let node = device.join("of_node");
    if !node.exists() {
        // ACPI shows no registers in sysfs. A device that an IOMMU serves has DMA, so registers too.
        let is_acpi = device.join("firmware_node").exists() && group.is_some();
        return (!is_acpi).then_some(LeftOut::NotDescribed);
    }
    let has = |name: &str| node.join(name).exists();
    let is_pci_host = files::texts(&node.join("device_type")) == ["pci"];
    if has("interrupt-controller") || has("#iommu-cells") || is_pci_host {
        Some(LeftOut::Infrastructure)
    } else if has("reg") && has("compatible") {
        None
    } else {
        Some(LeftOut::NotDescribed)
    }
}
