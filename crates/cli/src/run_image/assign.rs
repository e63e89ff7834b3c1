//! `--device vfio-pci` and `--device vfio-platform`: finds the device of the host, and says what stands in the way.

use std::sync::Arc;

use anyhow::{Result, bail};

use super::device::Assigned;
use vmbell::hypervisor::Vm;
use vmbell::machine::{OnEvent, Pc};
use vmbell::passthrough::host::{Bus, Host, HostDevice};

/// Gives the guest a PCI device.
pub(super) fn pci<V: Vm>(pc: &Pc<V>, device: &Assigned) -> Result<()> {
    let found = ready(&[Bus::Pci], device)?;
    let name = found.name.clone();
    let on_event: OnEvent = Arc::new(move |event| eprintln!("warning: {name}: {event}"));
    Ok(pc.assign(&found, device.mmap, &on_event)?)
}

/// Refuses a platform device.
pub(super) fn platform(device: &Assigned) -> Result<()> {
    let found = ready(&[Bus::Platform, Bus::Amba], device)?;
    bail!(
        "{} cannot be assigned to this machine: a guest finds a platform device by its device tree, which the PC \
         has not got",
        found.name
    )
}

/// The device, if nothing stands in the way of assigning it.
fn ready(buses: &[Bus], device: &Assigned) -> Result<HostDevice> {
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
        for line in obstacle.fix() {
            text += &format!("\n    {line}");
        }
    }
    bail!(text)
}
