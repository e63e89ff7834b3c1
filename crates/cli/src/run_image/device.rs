//! Parses `--device NAME[,PROPERTY=VALUE]...`, which has QEMU's syntax.

use crate::suggest::did_you_mean;
use crate::values::size;
use vmbell::device::pci_testdev::PciTestdevConfig;

const NAME: &str = "pci-testdev";
const PROPERTIES: [&str; 2] = ["membar", "pv"];

/// A device to plug in; there is only one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device(pub(super) PciTestdevConfig);

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<Device, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    if name != NAME {
        let hint = did_you_mean(name, &[NAME]);
        return Err(format!("unknown device '{name}'{hint} (there is: {NAME})"));
    }
    let mut config = PciTestdevConfig::default();
    for part in parts {
        let (property, value) = part.split_once('=').unwrap_or((part, "on"));
        match property {
            "membar" => config.membar = size(value).map_err(|error| format!("membar: {error}"))?,
            "pv" => config.pv = on_or_off(value).ok_or("pv: 'on' or 'off' is wanted")?,
            _ => {
                let hint = did_you_mean(property, &PROPERTIES);
                let all = PROPERTIES.join(", ");
                return Err(format!(
                    "{NAME} has no property '{property}'{hint} (there are: {all})"
                ));
            }
        }
    }
    Ok(Device(config))
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
