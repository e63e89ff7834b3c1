//! The devices to show, each with what stands in its way.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use vmbell_vfio::host::{Bus, Host, HostDevice, LeftOut, Obstacle};

use super::{json, text};

/// A device with what stands in its way.
pub(super) struct DeviceCandidate {
    pub(super) device: HostDevice,
    pub(super) obstacles: Vec<Obstacle>,
}

impl DeviceCandidate {
    pub(super) fn is_ready(&self) -> bool {
        !self.obstacles.iter().any(Obstacle::is_blocking)
    }

    pub(super) fn state(&self) -> String {
        let short: Vec<_> = self.obstacles.iter().map(Obstacle::short).collect();
        match (self.is_ready(), short.is_empty()) {
            (true, true) => "ready".to_owned(),
            (true, false) => format!("ready ({})", short.join(", ")),
            (false, _) => short.join(", "),
        }
    }

    /// What is worth mending now. Without an IOMMU group no driver of VFIO's takes the device, so the host would
    /// lose its driver for nothing.
    pub(super) fn first_obstacles(&self) -> impl Iterator<Item = &Obstacle> {
        let is_before_binding = |obstacle: &&Obstacle| {
            matches!(
                obstacle,
                Obstacle::NoIommuGroup { .. } | Obstacle::NoModule { .. }
            )
        };
        let has_group = !matches!(self.obstacles.first(), Some(Obstacle::NoIommuGroup { .. }));
        let obstacles = self.obstacles.iter();
        obstacles.filter(move |obstacle| has_group || is_before_binding(obstacle))
    }
}

/// The devices to show, and how many others there are.
pub(super) struct DeviceCandidates {
    pub(super) shown: Vec<DeviceCandidate>,
    pub(super) left_out: BTreeMap<&'static str, usize>,
}

/// What is printed for the devices of those names, or for all candidates if there are no names.
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
