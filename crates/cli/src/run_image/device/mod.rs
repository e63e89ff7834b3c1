//! Parses `--device NAME[,PROPERTY=VALUE]...`, which has QEMU's syntax.

mod virtio;

use std::path::PathBuf;

pub(super) use self::virtio::{Drive, Link, Virtio};
use crate::confine::Devices;
use crate::suggest::did_you_mean;
use crate::values::size;
use vmbell_devices::pci_testdev::PciTestdevConfig;
use vmbell_devices::virtio::VirtioConfig;

const CHR_TESTDEV: &str = "chr-testdev";
const PC_TESTDEV: &str = "pc-testdev";
const PCI_TESTDEV: &str = "pci-testdev";
const VFIO_PCI: &str = "vfio-pci";
const VFIO_PLATFORM: &str = "vfio-platform";
const NAMES: [&str; 11] = [
    CHR_TESTDEV,
    PC_TESTDEV,
    PCI_TESTDEV,
    VFIO_PCI,
    VFIO_PLATFORM,
    virtio::BLK,
    virtio::CONSOLE,
    virtio::NET,
    virtio::RNG,
    virtio::USER_BLK,
    virtio::VSOCK,
];

/// A device to plug in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// A console by which the guest ends the machine with a code.
    ChrTestdev,
    /// Interrupt lines, ports and memory to test with.
    PcTestdev,
    /// Doorbells to measure, on the PCI bus.
    PciTestdev(PciTestdevConfig),
    /// A virtio device on the PCI bus.
    Virtio(Virtio, VirtioConfig),
    /// A virtio device on MMIO registers.
    VirtioMmio(Virtio, VirtioConfig),
    /// A PCI device of the host.
    VfioPci(Assigned),
    /// A platform device of the host.
    VfioPlatform(Assigned),
}

impl Device {
    /// Whether another process maps the guest's memory.
    pub(super) const fn shares_memory(&self) -> bool {
        matches!(
            self,
            Self::Virtio(Virtio::UserBlk(_), _) | Self::VirtioMmio(Virtio::UserBlk(_), _)
        )
    }

    /// What the guest's threads need for it, besides what they always need.
    pub(super) const fn needs(&self, devices: &mut Devices) {
        match self {
            Self::PcTestdev => devices.pc_testdev = true,
            Self::ChrTestdev | Self::PciTestdev(_) => {}
            Self::Virtio(device, _) | Self::VirtioMmio(device, _) => match device {
                Virtio::Blk(_) => devices.disk = true,
                Virtio::Net(link) => {
                    devices.tap = true;
                    devices.worker |= link.vhost;
                }
                Virtio::Vsock(_) => devices.worker = true,
                Virtio::UserBlk(_) => devices.user_worker = true,
                Virtio::Console | Virtio::Rng => {}
            },
            Self::VfioPci(_) | Self::VfioPlatform(_) => devices.assigned = true,
        }
    }
}

/// A device of the host, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Its name on its bus, such as `0000:00:03.0`.
    pub(super) host: String,
    /// Whether its registers are mapped where they can be.
    pub(super) mmap: bool,
    /// For a platform device: a compiled device tree that describes it.
    pub(super) dtb: Option<PathBuf>,
}

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<Device, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    match name {
        CHR_TESTDEV => {
            properties(CHR_TESTDEV, &[], parts, |_, _| Ok(()))?;
            Ok(Device::ChrTestdev)
        }
        PC_TESTDEV => {
            properties(PC_TESTDEV, &[], parts, |_, _| Ok(()))?;
            Ok(Device::PcTestdev)
        }
        PCI_TESTDEV => pci_testdev(parts),
        virtio::BLK => virtio::blk(parts),
        virtio::CONSOLE => virtio::console(parts),
        virtio::NET => virtio::net(parts),
        virtio::RNG => virtio::rng(parts),
        virtio::USER_BLK => virtio::user_blk(parts),
        virtio::VSOCK => virtio::vsock(parts),
        VFIO_PCI => {
            assigned(VFIO_PCI, &["host", "mmap"], "0000:00:03.0", parts).map(Device::VfioPci)
        }
        VFIO_PLATFORM => {
            let known = ["host", "mmap", "dtb"];
            assigned(VFIO_PLATFORM, &known, "9010000.pl031", parts).map(Device::VfioPlatform)
        }
        _ => {
            let (hint, all) = (did_you_mean(name, &NAMES), NAMES.join(", "));
            Err(format!("unknown device '{name}'{hint} (there are: {all})"))
        }
    }
}

/// Calls `set` with each property and its value, which is `on` if there is none.
fn properties<'t>(
    device: &str,
    known: &[&str],
    parts: impl Iterator<Item = &'t str>,
    mut set: impl FnMut(&str, &'t str) -> Result<(), String>,
) -> Result<(), String> {
    for part in parts {
        let (property, value) = part.split_once('=').unwrap_or((part, "on"));
        if known.is_empty() {
            return Err(format!("{device} has no properties, so no '{part}'"));
        }
        if !known.contains(&property) {
            let (hint, all) = (did_you_mean(property, known), known.join(", "));
            return Err(format!(
                "{device} has no property '{property}'{hint} (there are: {all})"
            ));
        }
        set(property, value).map_err(|error| format!("{property}: {error}"))?;
    }
    Ok(())
}

fn pci_testdev<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let mut config = PciTestdevConfig::default();
    properties(PCI_TESTDEV, &["membar", "pv"], parts, |property, value| {
        match property {
            "membar" => config.membar = size(value)?,
            _ => config.pv = on_or_off(value)?,
        }
        Ok(())
    })?;
    Ok(Device::PciTestdev(config))
}

fn assigned<'t>(
    device: &str,
    known: &[&str],
    example: &str,
    parts: impl Iterator<Item = &'t str>,
) -> Result<Assigned, String> {
    let (mut host, mut mmap, mut dtb) = (None, true, None);
    properties(device, known, parts, |property, value| {
        match property {
            "host" => host = Some(value.to_owned()),
            "dtb" => dtb = Some(value.into()),
            _ => mmap = on_or_off(value)?,
        }
        Ok(())
    })?;
    let host = host.ok_or_else(|| {
        format!(
            "{device} needs the device, for example host={example} (vmbell probe --devices lists them)"
        )
    })?;
    Ok(Assigned { host, mmap, dtb })
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("'on' or 'off' is wanted".to_owned()),
    }
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
