//! `vmbell probe --devices`: what this host could assign to a guest, the obstacles for each device, and commands that
//! remove them. The commands are only printed.

mod candidates;
mod json;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use vmbell_vfio::host::{Bus, Host, LeftOut};

use self::candidates::{DeviceCandidate, DeviceCandidates};

/// The text about the named devices, or about all candidates if there are no names.
pub(crate) fn report(names: &[String], root: Option<&Path>, is_json: bool) -> Result<String> {
    let host = root.map_or_else(Host::system, Host::at);
    let mut left_out = BTreeMap::new();
    let devices = if names.is_empty() {
        let mut devices = host.devices();
        devices.retain(|device| {
            let reason = device.left_out();
            if let Some(reason) = reason {
                *left_out.entry(kind(reason)).or_default() += 1;
            }
            reason.is_none()
        });
        devices
    } else {
        let find = |name: &String| host.find(&Bus::ALL, name);
        names.iter().map(find).collect::<Result<_, _>>()?
    };
    let shown = devices
        .into_iter()
        .map(|device| DeviceCandidate {
            obstacles: host.obstacles(&device),
            device,
        })
        .collect();
    let candidates = DeviceCandidates { shown, left_out };
    if is_json {
        json::json(&candidates)
    } else {
        Ok(text::text(&candidates))
    }
}

const fn kind(left_out: LeftOut) -> &'static str {
    match left_out {
        LeftOut::Bridge => "bridges",
        LeftOut::Infrastructure => "iommus, interrupt controllers and pci hosts",
        LeftOut::NotDescribed => "devices without described registers",
    }
}
