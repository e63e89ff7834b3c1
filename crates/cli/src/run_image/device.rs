//! Parses `--device NAME[,PROPERTY=VALUE]...`, which has QEMU's syntax.

use std::path::PathBuf;

use crate::suggest::did_you_mean;
use crate::values::size;
use vmbell::device::pci_testdev::PciTestdevConfig;
use vmbell::device::virtio::net::{Mac, MacError};
use vmbell::device::virtio::pci::{Notify, Raise, VirtioPciConfig};

const PC_TESTDEV: &str = "pc-testdev";
const PCI_TESTDEV: &str = "pci-testdev";
const VFIO_PCI: &str = "vfio-pci";
const VFIO_PLATFORM: &str = "vfio-platform";
const VIRTIO_RNG: &str = "virtio-rng";
const VIRTIO_BLK: &str = "virtio-blk";
const VIRTIO_NET: &str = "virtio-net";
const NAMES: [&str; 7] = [
    PC_TESTDEV,
    PCI_TESTDEV,
    VFIO_PCI,
    VFIO_PLATFORM,
    VIRTIO_BLK,
    VIRTIO_NET,
    VIRTIO_RNG,
];

/// A device to plug in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Interrupt lines, ports and memory to test with.
    PcTestdev,
    /// Doorbells to measure, on the PCI bus.
    PciTestdev(PciTestdevConfig),
    /// A disk, on the PCI bus.
    VirtioBlk(Drive, VirtioPciConfig),
    /// A network interface, on the PCI bus.
    VirtioNet(Link, VirtioPciConfig),
    /// Random bytes, on the PCI bus.
    VirtioRng(VirtioPciConfig),
    /// A PCI device of the host.
    VfioPci(Assigned),
    /// A platform device of the host.
    VfioPlatform(Assigned),
}

/// What a disk is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drive {
    /// A file or a block device.
    pub(super) file: PathBuf,
    /// Whether the guest may only read.
    pub(super) readonly: bool,
}

/// The two ends of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The name of the tap, which is an interface of the host.
    pub(super) tap: String,
    /// The Ethernet address of the guest's interface.
    pub(super) mac: Mac,
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
        PC_TESTDEV => {
            properties(PC_TESTDEV, &[], parts, |_, _| Ok(()))?;
            Ok(Device::PcTestdev)
        }
        PCI_TESTDEV => pci_testdev(parts),
        VIRTIO_BLK => virtio_blk(parts),
        VIRTIO_NET => virtio_net(parts),
        VIRTIO_RNG => virtio_rng(parts),
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

fn virtio_blk<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let (mut file, mut readonly) = (None, false);
    let mut config = VirtioPciConfig::default();
    let known = [&["file", "readonly"], &TRANSPORT[..]].concat();
    properties(VIRTIO_BLK, &known, parts, |property, value| {
        match property {
            "file" => file = Some(value.into()),
            "readonly" => readonly = on_or_off(value)?,
            _ => transport(&mut config, property, value)?,
        }
        Ok(())
    })?;
    let file = file.ok_or("virtio-blk needs a file, for example file=disk.img")?;
    Ok(Device::VirtioBlk(Drive { file, readonly }, config))
}

fn virtio_net<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let (mut tap, mut mac) = (None, None);
    let mut config = VirtioPciConfig::default();
    let known = [&["tap", "mac"], &TRANSPORT[..]].concat();
    properties(VIRTIO_NET, &known, parts, |property, value| {
        match property {
            "tap" => tap = Some(value.to_owned()),
            "mac" => mac = Some(value.parse().map_err(|error: MacError| error.to_string())?),
            _ => transport(&mut config, property, value)?,
        }
        Ok(())
    })?;
    let tap = tap.ok_or("virtio-net needs an interface of the host, for example tap=tap0")?;
    let mac = mac.unwrap_or_else(|| Mac::of(&tap));
    Ok(Device::VirtioNet(Link { tap, mac }, config))
}

fn virtio_rng<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let mut config = VirtioPciConfig::default();
    properties(VIRTIO_RNG, &TRANSPORT, parts, |property, value| {
        transport(&mut config, property, value)
    })?;
    Ok(Device::VirtioRng(config))
}

/// The properties that every virtio device has.
const TRANSPORT: [&str; 3] = ["notify", "interrupt", "packed"];

/// Sets one of them.
fn transport(config: &mut VirtioPciConfig, property: &str, value: &str) -> Result<(), String> {
    match (property, value) {
        ("notify", "ioeventfd") => config.notify = Notify::Doorbell,
        ("notify", "exit") => config.notify = Notify::Exit,
        ("notify", _) => return Err("'ioeventfd' or 'exit' is wanted".to_owned()),
        ("packed", _) => config.packed = on_or_off(value)?,
        (_, "irqfd") => config.raise = Raise::Irqfd,
        (_, "call") => config.raise = Raise::Call,
        _ => return Err("'irqfd' or 'call' is wanted".to_owned()),
    }
    Ok(())
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
#[path = "device_test.rs"]
mod tests;
