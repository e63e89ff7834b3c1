//! Devices that a board has only if the caller asks for them: L1 can assign them to a guest with VFIO.
//!
//! Each has a fixed PCI address in L1. It stands behind an IOMMU and in an IOMMU group of its own.

/// A PCI device.
#[derive(Debug, PartialEq, Eq)]
pub struct Device {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// Its address in L1, as sysfs names it.
    pub address: &'static str,
    /// QEMU's arguments, which fix the address.
    pub arguments: &'static [&'static str],
    /// Modules for what L1 itself has beside the device.
    pub modules: &'static [&'static str],
    /// For a network card: the address of L1's own interface, which is connected to it.
    pub interface: Option<&'static str>,
}

/// What L1 needs to assign any device: an IOMMU, and VFIO in its kernel.
#[derive(Clone, Copy, Debug)]
pub struct Iommu {
    /// What is added to the options of QEMU's machine; may be empty.
    pub machine: &'static str,
    /// QEMU's arguments.
    pub arguments: &'static [&'static str],
    /// Kernel parameters.
    pub parameters: &'static str,
    /// Modules of VFIO; their dependencies are added.
    pub modules: &'static [&'static str],
}

/// What drives a device in L1 when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// VFIO: a program can assign the device at once.
    VfioPci,
    /// Nothing.
    None,
}

impl Driver {
    /// All of them, the default first.
    pub const ALL: [Self; 2] = [Self::VfioPci, Self::None];

    /// The driver's name in L1's kernel, or `none`.
    pub fn name(self) -> &'static str {
        match self {
            Self::VfioPci => "vfio-pci",
            Self::None => "none",
        }
    }
}

/// A device that L1 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugged {
    /// The device.
    pub device: &'static Device,
    /// What drives it in L1.
    pub driver: Driver,
}
