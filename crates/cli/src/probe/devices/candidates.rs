//! The devices to show, each with what stands in its way.

use std::collections::BTreeMap;

use vmbell_vfio::host::{HostDevice, Obstacle};

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
