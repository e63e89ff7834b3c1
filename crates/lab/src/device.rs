//! Devices that a board has only if the caller asks for them: L1 can assign them to a guest with VFIO.
//!
//! Each has a fixed address in L1. It is behind an IOMMU and in its own IOMMU group.

/// A device of L1.
#[derive(Debug, PartialEq, Eq)]
pub struct L1Device {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// The bus on which it is.
    pub bus: L1Bus,
    /// Its address in L1, as sysfs names it.
    pub address: &'static str,
    /// QEMU's arguments, which fix the address.
    pub arguments: &'static [&'static str],
    /// Modules of the kernel in use: for what L1 itself has in addition to the device, and for its VFIO driver.
    pub modules: &'static [&'static str],
    /// Whether its driver of VFIO is among the modules that the lab builds, because the distribution's kernel lacks it.
    pub built_driver: bool,
    /// For a network card: the address of L1's own interface, which is connected to it.
    pub interface: Option<&'static str>,
    /// Whether QEMU can save it.
    pub has_state: bool,
    /// For a device that QEMU does not put behind the IOMMU: how the device tree says that it is.
    pub master: Option<Master>,
}

/// A bus of L1's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L1Bus {
    /// PCI.
    Pci,
    /// AMBA, the bus of Arm's own peripherals.
    Amba,
}

impl L1Bus {
    /// The name of its folder in `/sys/bus`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Amba => "amba",
        }
    }

    /// The driver of VFIO for its devices.
    pub fn vfio_driver(self) -> &'static str {
        match self {
            Self::Pci => "vfio-pci",
            Self::Amba => "vfio-amba",
        }
    }
}

/// A device that is to be behind an IOMMU (`iommus` of the device tree's binding `iommu/iommu.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// The path of the device's node.
    pub node: &'static str,
    /// The path of the IOMMU's node.
    pub iommu: &'static str,
    /// The stream by which the IOMMU is to know the device: one that no other device has.
    pub stream: u32,
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
pub enum L1Driver {
    /// VFIO: a program can assign the device at once.
    Vfio,
    /// Nothing.
    None,
}

/// A device that L1 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluggedDevice {
    /// The device.
    pub device: &'static L1Device,
    /// What drives it in L1.
    pub driver: L1Driver,
}

impl PluggedDevice {
    /// The driver's name in L1's kernel; `None` if the device has none.
    pub fn driver_name(&self) -> Option<&'static str> {
        match self.driver {
            L1Driver::Vfio => Some(self.device.bus.vfio_driver()),
            L1Driver::None => None,
        }
    }
}
