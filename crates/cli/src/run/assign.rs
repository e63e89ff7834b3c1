//! `--device vfio-pci` and `--device vfio-platform`: finds the host's device and reports obstacles.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::device::AssignedDevice;
use crate::advice::remedy;
use vmbell_vfio::host::{Bus, Host, HostDevice};
use vmbell_vfio::interrupt::InterruptPath;
use vmbell_vfio::node::{
    Choice, Copied, DeviceNode, InterruptFormat, InterruptParent, NodeRegion, Parent, Tree,
    Trigger, sample_tree,
};
use vmbell_vmm::{OnEvent, Pc};

/// The host's device tree, if it has one.
const HOST_TREE: &str = "/proc/device-tree";

/// Gives the guest a PCI device.
pub(super) fn pci(pc: &Pc, device: &AssignedDevice) -> Result<()> {
    let found = ready(&[Bus::Pci], device)?;
    Ok(pc.assign(&found, device.mmap, &warnings(&found))?)
}

/// Prints warnings about the device.
fn warnings(device: &HostDevice) -> OnEvent {
    let name = device.name.clone();
    Arc::new(move |event| eprintln!("warning: {name}: {event}"))
}

/// Gives the guest a platform device, prints its addresses, and returns its node.
pub(super) fn platform(pc: &Pc, device: &AssignedDevice) -> Result<DeviceNode> {
    let found = ready(&[Bus::Platform, Bus::Amba], device)?;
    let name = &found.name;
    let node = node(&found, device.dtb.as_deref())
        .with_context(|| format!("cannot make the device-tree node of {name}"))?;
    let place = pc.assign_platform(&found, device.mmap, &warnings(&found))?;
    for NodeRegion { address, size } in &place.regions {
        eprintln!("{name}: {size:#x} bytes of registers at {address:#x}");
    }
    for (interrupt, path) in place.interrupts.iter().zip(&place.paths) {
        let trigger = match interrupt.trigger {
            Trigger::LevelHigh => "level",
            Trigger::EdgeRising => "edge",
        };
        eprintln!("{name}: {trigger} interrupt at pin {}", interrupt.number);
        if let InterruptPath::Vmm { reason } = path {
            eprintln!("warning: {name}: a thread of the VMM delivers it: {reason}");
        }
    }
    Ok(DeviceNode {
        regions: place.regions,
        interrupts: place.interrupts,
        ..node
    })
}

/// The device's node in the user's tree, or in the host's.
fn node(device: &HostDevice, dtb: Option<&Path>) -> Result<DeviceNode> {
    if let Some(path) = dtb {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Tree::from_blob(&bytes)?.device(&Choice::Only, Copied::All)?);
    }
    let Some(path) = device.node_path() else {
        bail!("the host has no device tree with it: give a compiled one (dtb=FILE)")
    };
    let tree = Tree::from_folder(Path::new(HOST_TREE))?;
    Ok(tree.device(&Choice::Path(&path), Copied::Common)?)
}

/// Writes a compiled tree with these nodes.
pub(super) fn dump(nodes: &[DeviceNode], path: &Path) -> Result<()> {
    let parent = Parent {
        address_cells: 2,
        size_cells: 2,
        interrupts: Some(InterruptParent {
            phandle: 1,
            format: InterruptFormat::NumberAndFlags,
        }),
    };
    let blob = sample_tree(nodes, &parent)?;
    fs::write(path, blob).with_context(|| format!("cannot write {}", path.display()))
}

/// The device, if it can be assigned.
fn ready(buses: &[Bus], device: &AssignedDevice) -> Result<HostDevice> {
    let host = Host::system();
    let found = host.find(buses, &device.host)?;
    let obstacles = host.obstacles(&found);
    let blocking: Vec<_> = obstacles
        .iter()
        .filter(|obstacle| obstacle.is_blocking())
        .collect();
    if blocking.is_empty() {
        return Ok(found);
    }
    let mut text = format!("{} cannot be assigned", found.name);
    for obstacle in blocking {
        text += &format!("\n  {obstacle}");
        for line in remedy::commands(obstacle) {
            text += &format!("\n    {line}");
        }
    }
    bail!(text)
}
