//! Devices that a board has only if the caller asks for them. L1 can assign them to a guest with VFIO.
//!
//! Each has a fixed address in L1. It is behind an IOMMU and in its own IOMMU group.

/// A device of L1.
#[derive(Debug, PartialEq, Eq)]
pub struct L1Device {
    /// The name by which a user asks for the device.
    pub name: &'static str,
    /// The device's bus.
    pub bus: L1Bus,
    /// The device's address in L1, as sysfs names it.
    pub address: &'static str,
    /// QEMU's arguments, including the fixed address.
    pub arguments: &'static [&'static str],
    /// Modules of the kernel in use: the device's VFIO driver, and drivers for what L1 itself gets with it.
    pub modules: &'static [&'static str],
    /// Whether the lab has to build the device's VFIO driver because the distribution's kernel lacks it.
    pub built_driver: bool,
    /// For a network card: the PCI address of L1's own interface, which is connected to the card.
    pub interface: Option<&'static str>,
    /// Whether QEMU can save the device's state.
    pub has_state: bool,
    /// For a device that QEMU does not put behind the IOMMU: what the device tree has to say about it.
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
    /// The name of the bus's folder in `/sys/bus`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Amba => "amba",
        }
    }

    /// The VFIO driver for devices on the bus.
    pub fn vfio_driver(self) -> &'static str {
        match self {
            Self::Pci => "vfio-pci",
            Self::Amba => "vfio-amba",
        }
    }
}

/// A device to put behind an IOMMU (`iommus` in the device tree binding `iommu/iommu.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// The path of the device's node.
    pub node: &'static str,
    /// The path of the IOMMU's node.
    pub iommu: &'static str,
    /// The stream ID by which the IOMMU identifies the device. No other device has it.
    pub stream: u32,
}

/// What L1 needs to assign any device: an IOMMU, and a kernel with VFIO.
#[derive(Clone, Copy, Debug)]
pub struct Iommu {
    /// Options to add to QEMU's machine; may be empty.
    pub machine: &'static str,
    /// QEMU's arguments.
    pub arguments: &'static [&'static str],
    /// Kernel parameters.
    pub parameters: &'static str,
    /// VFIO modules; their dependencies are added.
    pub modules: &'static [&'static str],
}

/// The driver of a device in L1 when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L1Driver {
    /// VFIO: a program can assign the device immediately.
    Vfio,
    /// No driver.
    None,
}

/// A device that L1 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluggedDevice {
    /// The device.
    pub device: &'static L1Device,
    /// The device's driver in L1.
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
