//! One device of the host, as sysfs shows it.

use std::path::PathBuf;

use super::bus::Bus;
use super::files;
use super::group::is_vfio;
use super::identity::Identity;
use super::region::{self, HostRegion};
use super::reset::{self, Reset};
use super::root::Host;

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Its bus.
    pub bus: Bus,
    /// Its name on the bus: `0000:00:03.0`, `9010000.pl031`.
    pub name: String,
    /// Its folder in sysfs.
    pub path: PathBuf,
    /// What it is.
    pub identity: Identity,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Its IOMMU group, one of vfio's no-IOMMU mode too.
    pub group: Option<u32>,
    /// How it can be reset.
    pub reset: Reset,
    /// Its registers, as far as the host says them.
    pub regions: Vec<HostRegion>,
    /// Its name in `/dev/vfio/devices` (where the kernel has such files), if a driver of VFIO's is bound to it.
    pub cdev: Option<String>,
}

impl HostDevice {
    /// Whether a driver that hands it to user space is bound to it.
    pub fn is_bound_to_vfio(&self) -> bool {
        self.cdev.is_some() || self.driver.as_deref().is_some_and(is_vfio)
    }

    /// The path of the device's node in the host's device tree; `None` if it has no node.
    pub fn node_path(&self) -> Option<String> {
        let target = std::fs::read_link(self.path.join("of_node")).ok()?;
        let (_, path) = target.to_str()?.split_once("/devicetree/base/")?;
        Some(format!("/{path}"))
    }
}

impl Host {
    /// All devices on the buses of [`Bus`], sorted by bus and name, with those that are no candidates
    /// ([`HostDevice::left_out`]).
    pub fn devices(&self) -> Vec<HostDevice> {
        let names = |bus: Bus| {
            let names = files::names(&self.bus(bus).join("devices"));
            names.into_iter().map(move |name| (bus, name))
        };
        Bus::ALL
            .into_iter()
            .flat_map(names)
            .map(|(bus, name)| self.device(bus, name))
            .collect()
    }

    /// What sysfs says about the device of that name, which it has.
    pub(super) fn device(&self, bus: Bus, name: String) -> HostDevice {
        let path = self.bus(bus).join("devices").join(&name);
        let identity = Identity::read(bus, &path);
        let group = files::link_name(&path.join("iommu_group"));
        let mut cdevs = files::names(&path.join("vfio-dev")).into_iter();
        HostDevice {
            driver: files::link_name(&path.join("driver")),
            group: group.and_then(|group| group.parse().ok()),
            reset: reset::read(self, bus, &path, &identity),
            regions: region::read(bus, &path),
            cdev: cdevs.find(|name| name.starts_with("vfio")),
            bus,
            name,
            path,
            identity,
        }
    }
}
