//! The devices as JSON, with all obstacles of each.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use vmbell_vfio::host::{Identity, RegionKind, Reset};

use super::candidates::{DeviceCandidate, DeviceCandidates};
use crate::advice::remedy;

#[derive(Serialize)]
struct JsonRegion {
    index: usize,
    kind: &'static str,
    size: u64,
}

#[derive(Serialize)]
struct JsonObstacle {
    name: &'static str,
    text: String,
    blocking: bool,
    fix: Vec<String>,
}

#[derive(Serialize)]
struct JsonDevice<'c> {
    bus: &'static str,
    name: &'c str,
    id: Option<String>,
    class: Option<String>,
    compatible: Option<&'c [String]>,
    driver: Option<&'c str>,
    group: Option<u32>,
    cdev: Option<&'c str>,
    /// `null` if the host does not say.
    reset: Option<Vec<&'c str>>,
    regions: Vec<JsonRegion>,
    ready: bool,
    obstacles: Vec<JsonObstacle>,
}

#[derive(Serialize)]
struct JsonDevices<'c> {
    devices: Vec<JsonDevice<'c>>,
    left_out: &'c BTreeMap<&'static str, usize>,
}

fn row(candidate: &DeviceCandidate) -> JsonDevice<'_> {
    let device = &candidate.device;
    let (id, class, compatible) = match &device.identity {
        Identity::Pci {
            vendor,
            device,
            class,
        } => (
            Some(format!("{vendor:04x}:{device:04x}")),
            Some(format!("{class:06x}")),
            None,
        ),
        Identity::Described { compatible, .. } => (None, None, Some(compatible.as_slice())),
    };
    let reset = match &device.reset {
        Reset::Methods(methods) => Some(methods.iter().map(String::as_str).collect()),
        Reset::Module(module) => Some(vec![module.as_str()]),
        Reset::Possible => Some(vec!["reset"]),
        Reset::Impossible => Some(Vec::new()),
        Reset::Unknown => None,
    };
    let regions = device.regions.iter().map(|region| JsonRegion {
        index: region.index,
        kind: match region.kind {
            RegionKind::Io => "io",
            RegionKind::Memory => "memory",
        },
        size: region.size,
    });
    let obstacles = candidate.obstacles.iter().map(|obstacle| JsonObstacle {
        name: obstacle.short(),
        text: obstacle.to_string(),
        blocking: obstacle.is_blocking(),
        fix: remedy::commands(obstacle),
    });
    JsonDevice {
        bus: device.bus.name(),
        name: &device.name,
        id,
        class,
        compatible,
        driver: device.driver.as_deref(),
        group: device.group,
        cdev: device.cdev.as_deref(),
        reset,
        regions: regions.collect(),
        ready: candidate.is_ready(),
        obstacles: obstacles.collect(),
    }
}

pub(super) fn json(candidates: &DeviceCandidates) -> Result<String> {
    let answer = JsonDevices {
        devices: candidates.shown.iter().map(row).collect(),
        left_out: &candidates.left_out,
    };
    let mut text = serde_json::to_string_pretty(&answer).context("cannot write this as JSON")?;
    text.push('\n');
    Ok(text)
}
