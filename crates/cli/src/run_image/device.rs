//! Parses `--device NAME[,PROPERTY=VALUE]...`, which has QEMU's syntax.

use crate::suggest::did_you_mean;
use crate::values::size;
use vmbell::device::pci_testdev::PciTestdevConfig;

const PC_TESTDEV: &str = "pc-testdev";
const PCI_TESTDEV: &str = "pci-testdev";
const NAMES: [&str; 2] = [PC_TESTDEV, PCI_TESTDEV];
const PCI_TESTDEV_PROPERTIES: [&str; 2] = ["membar", "pv"];

/// A device to plug in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Interrupt lines, ports and memory to test with.
    PcTestdev,
    /// Doorbells to measure, on the PCI bus.
    PciTestdev(PciTestdevConfig),
}

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<Device, String> {
    let (name, properties) = match text.split_once(',') {
        Some((name, properties)) => (name, Some(properties.split(','))),
        None => (text, None),
    };
    let properties = properties.into_iter().flatten();
    match name {
        PC_TESTDEV => pc_testdev(properties),
        PCI_TESTDEV => pci_testdev(properties),
        _ => {
            let (hint, all) = (did_you_mean(name, &NAMES), NAMES.join(", "));
            Err(format!("unknown device '{name}'{hint} (there are: {all})"))
        }
    }
}

fn pc_testdev<'t>(mut properties: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    match properties.next() {
        None => Ok(Device::PcTestdev),
        Some(property) => Err(format!(
            "{PC_TESTDEV} has no properties, so no '{property}'"
        )),
    }
}

fn pci_testdev<'t>(properties: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let mut config = PciTestdevConfig::default();
    for part in properties {
        let (property, value) = part.split_once('=').unwrap_or((part, "on"));
        match property {
            "membar" => config.membar = size(value).map_err(|error| format!("membar: {error}"))?,
            "pv" => config.pv = on_or_off(value).ok_or("pv: 'on' or 'off' is wanted")?,
            _ => {
                let hint = did_you_mean(property, &PCI_TESTDEV_PROPERTIES);
                let all = PCI_TESTDEV_PROPERTIES.join(", ");
                return Err(format!(
                    "{PCI_TESTDEV} has no property '{property}'{hint} (there are: {all})"
                ));
            }
        }
    }
    Ok(Device::PciTestdev(config))
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "device_test.rs"]
mod tests;
