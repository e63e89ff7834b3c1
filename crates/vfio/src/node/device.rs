//! A device as a device tree describes it: what it is, where its registers and interrupts are, and what drives it.

use std::fmt;

/// A device as the guest's tree describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceNode {
    /// The name of the node, without an address.
    pub name: String,
    /// What the device is, the most specific name first.
    pub compatible: Vec<String>,
    /// The device's registers in the guest, in the order of the device. The node's name has the address of the first
    /// one.
    pub regions: Vec<NodeRegion>,
    /// The device's interrupts in the guest, in the order of the device.
    pub interrupts: Vec<NodeInterrupt>,
    /// Whether the device's DMA is coherent with the CPUs' caches.
    pub dma_coherent: bool,
    /// The device's clocks, in the order of the device.
    pub clocks: Vec<FixedClock>,
    /// The node's further properties.
    pub properties: Vec<Property>,
}

impl DeviceNode {
    /// A node of that name without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The node's name with its address.
    pub(super) fn full_name(&self) -> String {
        let name = &self.name;
        match self.regions.first() {
            Some(region) => format!("{name}@{:x}", region.address),
            None => name.clone(),
        }
    }
}

/// A range of guest addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRegion {
    /// The first address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl NodeRegion {
    /// The last address, if the region is not empty and does not wrap.
    pub(super) fn last(self) -> Option<u64> {
        self.address.checked_add(self.size.checked_sub(1)?)
    }
}

impl fmt::Display for NodeRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:#x} bytes at {:#x})", self.size, self.address)
    }
}

/// An interrupt of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInterrupt {
    /// The number of the line at the interrupt controller: for a GIC, the number of the shared peripheral interrupt,
    /// which is 32 below its INTID.
    pub number: u32,
    /// What triggers the interrupt.
    pub trigger: Trigger,
}

/// When a line interrupts; the value is the flag of Linux's bindings (`interrupts.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Trigger {
    /// The line interrupts at its rising edge.
    EdgeRising = 1,
    /// The line interrupts while it is high.
    LevelHigh = 4,
}

impl Trigger {
    /// Returns the trigger of a line from its flag `VFIO_IRQ_INFO_AUTOMASKED`: VFIO masks only level-triggered lines
    /// itself.
    pub const fn of_line(is_automasked: bool) -> Self {
        if is_automasked {
            Self::LevelHigh
        } else {
            Self::EdgeRising
        }
    }
}

/// The parent of the device's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent's `#address-cells`: 1 or 2.
    pub address_cells: u32,
    /// The parent's `#size-cells`: 1 or 2.
    pub size_cells: u32,
    /// The interrupt controller that takes the interrupts.
    pub interrupts: Option<InterruptParent>,
}

/// The interrupt controller that takes the interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptParent {
    /// The controller's phandle in the guest's tree.
    pub phandle: u32,
    /// How the cells are filled.
    pub format: InterruptFormat,
}

/// How an interrupt controller's `#interrupt-cells` are filled (Linux's bindings
/// `interrupt-controller/arm,gic-v3.yaml` and `interrupts.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterruptFormat {
    /// `<0 SPI FLAGS>`, of a GICv2 or GICv3.
    Gic,
    /// `<NUMBER FLAGS>`.
    NumberAndFlags,
}

impl InterruptFormat {
    /// The controller's `#interrupt-cells`.
    pub const fn cells(self) -> u32 {
        match self {
            Self::Gic => 3,
            Self::NumberAndFlags => 2,
        }
    }

    pub(super) fn encode(self, NodeInterrupt { number, trigger }: NodeInterrupt) -> Vec<u32> {
        let flags = trigger as u32;
        match self {
            // A shared interrupt.
            Self::Gic => vec![0, number, flags],
            Self::NumberAndFlags => vec![number, flags],
        }
    }
}

/// A clock that always runs at one rate: the only kind that a guest can have without a driver for the host's clock
/// controller. The guest gets a separate node for each clock (Linux's binding `clock/fixed-clock.yaml`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedClock {
    /// The frequency in hertz, if the host's node has it.
    pub frequency: Option<u32>,
    /// What the clock's users may call its output.
    pub output_names: Vec<String>,
}

impl fmt::Display for FixedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock")?;
        for name in &self.output_names {
            write!(f, " '{name}'")?;
        }
        match self.frequency {
            Some(frequency) => write!(f, " of {frequency} Hz"),
            None => f.write_str(" of unknown rate"),
        }
    }
}

/// A property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The property's name.
    pub name: String,
    /// The property's value, as it is in the tree.
    pub value: Vec<u8>,
}

impl Property {
    /// Properties that are not copied: they are set for the guest, or concern only the host.
    const RESERVED: [&str; 16] = [
        "#address-cells",
        "#size-cells",
        "clocks",
        "compatible",
        "dma-coherent",
        "interrupt-parent",
        "interrupts",
        "interrupts-extended",
        "iommu-map",
        "iommus",
        "linux,phandle",
        "name",
        "phandle",
        "ranges",
        "reg",
        "status",
    ];

    /// Whether a property of this name is reserved: vmbell sets it for the guest itself, or it concerns only the host.
    pub(super) fn is_reserved(name: &str) -> bool {
        Self::RESERVED.contains(&name)
    }
}
