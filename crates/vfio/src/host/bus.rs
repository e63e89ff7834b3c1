//! The buses whose devices VFIO can assign, and the names that sysfs has for them.

use std::fmt;

/// A bus of the host's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bus {
    /// PCI and PCI Express.
    Pci,
    /// Devices that the firmware describes, in a device tree or in ACPI.
    Platform,
    /// Arm's PrimeCells, which a device tree describes.
    Amba,
}

impl Bus {
    /// Every bus.
    pub const ALL: [Self; 3] = [Self::Pci, Self::Platform, Self::Amba];

    /// The folder's name in `/sys/bus`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Platform => "platform",
            Self::Amba => "amba",
        }
    }

    /// The driver that hands out a device of this bus; its module has the same name.
    pub const fn vfio_driver(self) -> &'static str {
        match self {
            Self::Pci => "vfio-pci",
            Self::Platform => "vfio-platform",
            Self::Amba => "vfio-amba",
        }
    }

    /// The option of the kernel's build that has that driver.
    pub const fn kernel_option(self) -> &'static str {
        match self {
            Self::Pci => "CONFIG_VFIO_PCI",
            Self::Platform => "CONFIG_VFIO_PLATFORM",
            Self::Amba => "CONFIG_VFIO_AMBA",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bus| bus.name() == name)
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
