//! One device of the host, as sysfs shows it before it is opened: identity, registers, reset, and whether it is a
//! candidate for assignment.
//!
//! The BARs of a PCI function come from its `resource` file, the regions of a device-tree node from `reg`. How a PCI
//! function can be reset is in `reset_method`; a platform device has a module with the alias `vfio-reset:COMPATIBLE`
//! (Linux `drivers/vfio/platform/vfio_platform_common.c`). Any thread may read.

use std::fmt;
use std::path::{Path, PathBuf};

use super::bus::{Bus, is_vfio};
use super::files::{self, Host};

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// The device's bus.
    pub bus: Bus,
    /// The device's name on the bus: `0000:00:03.0`, `9010000.pl031`.
    pub name: String,
    /// The device's folder in sysfs.
    pub path: PathBuf,
    /// What the device is.
    pub identity: Identity,
    /// The driver that the device is bound to.
    pub driver: Option<String>,
    /// The device's IOMMU group, which may be a group of vfio's no-IOMMU mode.
    pub group: Option<u32>,
    /// How the device can be reset.
    pub reset: Reset,
    /// The device's registers, as far as the host reports them.
    pub regions: Vec<HostRegion>,
    /// The device's name in `/dev/vfio/devices` (where the kernel has such files), if a driver of VFIO is bound to it.
    pub cdev: Option<String>,
}

impl HostDevice {
    /// Whether a driver that gives the device to user space is bound to it.
    pub fn is_bound_to_vfio(&self) -> bool {
        self.cdev.is_some() || self.driver.as_deref().is_some_and(is_vfio)
    }

    /// The path of the device's node in the host's device tree; `None` if it has no node.
    pub fn node_path(&self) -> Option<String> {
        let target = std::fs::read_link(self.path.join("of_node")).ok()?;
        let (_, path) = target.to_str()?.split_once("/devicetree/base/")?;
        Some(format!("/{path}"))
    }
}

impl Host {
    /// All devices on the buses of [`Bus`], sorted by bus and name, including devices that are not candidates
    /// ([`HostDevice::left_out`]).
    pub fn devices(&self) -> Vec<HostDevice> {
        let names = |bus: Bus| {
            let names = files::names(&self.bus(bus).join("devices"));
            names.into_iter().map(move |name| (bus, name))
        };
        Bus::ALL
            .into_iter()
            .flat_map(names)
            .map(|(bus, name)| self.device(bus, name))
            .collect()
    }

    /// Reads what sysfs says about the device of that name, which must exist.
    pub(super) fn device(&self, bus: Bus, name: String) -> HostDevice {
        let path = self.bus(bus).join("devices").join(&name);
        let identity = Identity::read(bus, &path);
        let group = files::link_name(&path.join("iommu_group"));
        let mut cdevs = files::names(&path.join("vfio-dev")).into_iter();
        HostDevice {
            driver: files::link_name(&path.join("driver")),
            group: group.and_then(|group| group.parse().ok()),
            reset: read_reset(self, bus, &path, &identity),
            regions: read_regions(bus, &path),
            cdev: cdevs.find(|name| name.starts_with("vfio")),
            bus,
            name,
            path,
            identity,
        }
    }
}

/// How a bus identifies a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A PCI function. A number that the host does not report is all ones.
    Pci {
        /// The vendor.
        vendor: u16,
        /// The vendor's number of the device.
        device: u16,
        /// Class, subclass and programming interface: 24 bits.
        class: u32,
    },
    /// A device that the firmware describes.
    Described {
        /// `compatible` of its device-tree node, the most specific name first; empty without a node.
        compatible: Vec<String>,
        /// The alias by which the kernel finds the module of the device's driver.
        modalias: Option<String>,
    },
}

impl Identity {
    pub(super) fn read(bus: Bus, device: &Path) -> Self {
        let number = |name| files::hex(&device.join(name));
        let word = |name| {
            number(name)
                .and_then(|number| u16::try_from(number).ok())
                .unwrap_or(u16::MAX)
        };
        match bus {
            Bus::Pci => Self::Pci {
                vendor: word("vendor"),
                device: word("device"),
                class: number("class").unwrap_or(u32::MAX) & 0xff_ffff,
            },
            Bus::Platform | Bus::Amba => Self::Described {
                compatible: files::texts(&device.join("of_node/compatible")),
                modalias: files::text(&device.join("modalias")),
            },
        }
    }
}

impl fmt::Display for Identity {
    /// `8086:10d3 class 020000`, or the first name of `compatible`, or the modalias.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci {
                vendor,
                device,
                class,
            } => f.pad(&format!("{vendor:04x}:{device:04x} class {class:06x}")),
            Self::Described {
                compatible,
                modalias,
            } => {
                let name = compatible.first().or(modalias.as_ref());
                f.pad(name.map_or("unknown", String::as_str))
            }
        }
    }
}

/// Why a device is not a candidate for assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The device is a bridge; the devices on its secondary bus can be assigned.
    Bridge,
    /// The device is an IOMMU, an interrupt controller or a PCI host.
    Infrastructure,
    /// Neither a device tree nor ACPI describes the device's registers.
    NotDescribed,
}

impl LeftOut {
    /// What the device is, for a sentence that begins with its name.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Bridge => "is a bridge: assign the devices behind it",
            Self::Infrastructure => "is an iommu, an interrupt controller or a pci host",
            Self::NotDescribed => "has no registers that a device tree or acpi describes",
        }
    }
}

impl HostDevice {
    /// Why the device is not a candidate for assignment; `None` if it is one.
    pub fn left_out(&self) -> Option<LeftOut> {
        match (self.bus, &self.identity) {
            (Bus::Pci, Identity::Pci { class, .. }) => match class >> 8 {
                0x0600..=0x06ff => Some(LeftOut::Bridge),
                0x0806 => Some(LeftOut::Infrastructure),
                _ => None,
            },
            _ => node_left_out(&self.path, self.group),
        }
    }
}

fn node_left_out(device: &Path, group: Option<u32>) -> Option<LeftOut> {
    let node = device.join("of_node");
    if !node.exists() {
        // ACPI shows no registers in sysfs. A device that an IOMMU serves does DMA, so it has registers.
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

/// The number of BARs of a PCI function; the lines after them in `resource` are the ROM and the windows of bridges.
const BARS: usize = 6;
/// `IORESOURCE_IO` and `IORESOURCE_MEM` of Linux's `ioport.h`.
const IO: u64 = 0x100;
const MEMORY: u64 = 0x200;
/// The maximum number of regions that are read from a node; devices have far fewer.
const REGIONS_MAX: usize = 64;

/// How a region is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// By ports.
    Io,
    /// By memory accesses.
    Memory,
}

/// A range of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRegion {
    /// The number of the BAR, or the place in `reg`.
    pub index: usize,
    /// How the registers are accessed.
    pub kind: RegionKind,
    /// The size in bytes, not 0.
    pub size: u64,
}

pub(super) fn read_regions(bus: Bus, device: &Path) -> Vec<HostRegion> {
    match bus {
        Bus::Pci => pci_bars(&files::text(&device.join("resource")).unwrap_or_default()),
        Bus::Platform | Bus::Amba => node_regions(&device.join("of_node")).unwrap_or_default(),
    }
}

fn pci_bars(text: &str) -> Vec<HostRegion> {
    let lines = text.lines().take(BARS).enumerate();
    lines
        .filter_map(|(index, line)| pci_bar(index, line))
        .collect()
}

/// A line is `START END FLAGS`; an absent BAR has zeros.
fn pci_bar(index: usize, line: &str) -> Option<HostRegion> {
    let mut numbers = line.split_whitespace().map(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).ok()
    });
    let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let kind = match flags & (IO | MEMORY) {
        IO => RegionKind::Io,
        MEMORY => RegionKind::Memory,
        _ => return None,
    };
    let size = end.checked_sub(start)?.checked_add(1)?;
    Some(HostRegion { index, kind, size })
}

/// Reads the sizes in `reg`. The parent says how many cells an address and a size have, by default 2 and 1.
fn node_regions(node: &Path) -> Option<Vec<HostRegion>> {
    let cells = |name: &str, default| {
        let cells = files::cell(&node.join("..").join(name)).unwrap_or(default);
        usize::try_from(cells).ok().filter(|cells| *cells <= 2)
    };
    let address = cells("#address-cells", 2)?;
    let size = cells("#size-cells", 1).filter(|cells| *cells > 0)?;
    let reg = files::bytes(&node.join("reg"))?;
    let regions = reg.chunks_exact(4 * (address + size)).take(REGIONS_MAX);
    let sizes = regions.enumerate().filter_map(|(index, region)| {
        let size = region[4 * address..]
            .iter()
            .fold(0, |size, byte| size << 8 | u64::from(*byte));
        let kind = RegionKind::Memory;
        (size != 0).then_some(HostRegion { index, kind, size })
    });
    Some(sizes.collect())
}

/// How a device can be reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The methods that the kernel tries, in order: `flr`, `pm`, `bus` and others.
    Methods(Vec<String>),
    /// The device can be reset, but the kernel does not say how.
    Possible,
    /// This module, which belongs to the device, resets it.
    Module(String),
    /// The device cannot be reset.
    Impossible,
    /// Whether the device can be reset is not known before it is opened.
    Unknown,
}

fn read_reset(host: &Host, bus: Bus, device: &Path, identity: &Identity) -> Reset {
    match (bus, identity) {
        (Bus::Pci, _) => pci_reset(device),
        (_, Identity::Described { compatible, .. }) if !compatible.is_empty() => {
            module_reset(host, compatible)
        }
        _ => Reset::Unknown,
    }
}

fn pci_reset(device: &Path) -> Reset {
    if let Some(methods) = files::text(&device.join("reset_method")) {
        return Reset::Methods(methods.split_whitespace().map(str::to_owned).collect());
    }
    // An empty `reset_method` is an administrator's choice; before 5.15 there was no such file.
    if device.join("reset").exists() && !device.join("reset_method").exists() {
        Reset::Possible
    } else {
        Reset::Impossible
    }
}

fn module_reset(host: &Host, compatible: &[String]) -> Reset {
    let Some(aliases) = host.modules().aliases() else {
        return Reset::Unknown;
    };
    let wanted: Vec<_> = compatible
        .iter()
        .map(|name| format!("vfio-reset:{name}"))
        .collect();
    let module = aliases
        .into_iter()
        .find(|(alias, _)| wanted.contains(alias));
    module.map_or(Reset::Impossible, |(_, module)| Reset::Module(module))
}
