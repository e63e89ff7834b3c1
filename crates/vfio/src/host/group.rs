//! An IOMMU group: the devices that the IOMMU cannot tell apart, so that only all of them together can be assigned.
//! Which drivers a group may have beside a guest is `iommu_device_use_default_domain` of Linux's `iommu.c`.

use super::bus::Bus;
use super::files;
use super::identity::Identity;
use super::root::Host;

/// A device in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name on its bus.
    pub name: String,
    /// Its bus, if that is one of those whose devices VFIO can assign.
    pub bus: Option<Bus>,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// It is a bridge between PCI buses.
    pub is_bridge: bool,
}

impl Member {
    /// Whether a guest may have the group while this device stays as it is. Drivers do not stand in the way that make
    /// no use of DMA: VFIO's, pci-stub and that of PCI Express ports (`driver_managed_dma` of Linux's drivers).
    pub fn leaves_the_group_viable(&self) -> bool {
        match self.driver.as_deref() {
            None | Some("pci-stub") => true,
            Some("pcieport") => self.is_bridge,
            Some(driver) => is_vfio(driver),
        }
    }
}

/// A group of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number, the name in `/dev/vfio`.
    pub number: u32,
    /// The devices in it, sorted by name.
    pub members: Vec<Member>,
}

/// Whether a driver hands its devices to user space: `vfio-pci`, or a variant such as `mlx5_vfio_pci`.
pub(super) fn is_vfio(driver: &str) -> bool {
    driver.contains("vfio")
}

impl Host {
    /// The IOMMU group of that number with its members; without members if there is no such group.
    pub fn group(&self, number: u32) -> Group {
        let folder = self.sys(format!("kernel/iommu_groups/{number}/devices"));
        let members = files::names(&folder).into_iter().map(|name| {
            let device = folder.join(&name);
            let bus = files::link_name(&device.join("subsystem")).and_then(|bus| Bus::named(&bus));
            let class = bus.map(|bus| Identity::read(bus, &device));
            Member {
                bus,
                driver: files::link_name(&device.join("driver")),
                is_bridge: matches!(class, Some(Identity::Pci { class, .. }) if class >> 8 == 0x0604),
                name,
            }
        });
        Group {
            number,
            members: members.collect(),
        }
    }
}
