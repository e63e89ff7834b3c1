//! The devices to show, each with its obstacles.

use std::collections::BTreeMap;

use vmbell_vfio::host::{HostDevice, Obstacle};

/// A device with its obstacles.
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

    /// The obstacles that are worth removing now. Without an IOMMU group no VFIO driver takes the device, so unbinding
    /// it from the host's driver would be for nothing.
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

/// The devices to show, and the number of others.
pub(super) struct DeviceCandidates {
    pub(super) shown: Vec<DeviceCandidate>,
    pub(super) left_out: BTreeMap<&'static str, usize>,
}
