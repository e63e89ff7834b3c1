//! How a device can be brought back to the state after power-on. For a PCI function the kernel says it in
//! `reset_method`; a platform device has a module with the alias `vfio-reset:COMPATIBLE` (`vfio_platform_common.c`).

use super::bus::Bus;
use super::files;
use super::identity::Identity;
use super::root::Host;
use std::path::Path;

/// How a device can be reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The methods that the kernel tries, in order: `flr`, `pm`, `bus` and others.
    Methods(Vec<String>),
    /// It can, but the kernel does not say how.
    Possible,
    /// By this module, which belongs to the device.
    Module(String),
    /// It cannot.
    Impossible,
    /// It is not known before the device is opened.
    Unknown,
}

pub(super) fn read(host: &Host, bus: Bus, device: &Path, identity: &Identity) -> Reset {
    match (bus, identity) {
        (Bus::Pci, _) => pci(device),
        (_, Identity::Described { compatible, .. }) if !compatible.is_empty() => {
            described(host, compatible)
        }
        _ => Reset::Unknown,
    }
}

fn pci(device: &Path) -> Reset {
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

fn described(host: &Host, compatible: &[String]) -> Reset {
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
