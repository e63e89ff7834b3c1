//! Finds the obstacles of a device, in the order in which they have to be mended.

use super::access;
use super::bus::Bus;
use super::device::HostDevice;
use super::files;
use super::iommu::NoIommu;
use super::obstacle::Obstacle;
use super::reset::Reset;
use super::root::Host;

impl Host {
    /// What stands in the way of assigning the device, in the order in which it has to be mended. If none of it is
    /// [blocking](Obstacle::is_blocking), the device can be assigned.
    pub fn obstacles(&self, device: &HostDevice) -> Vec<Obstacle> {
        if let Some(reason) = device.left_out() {
            return vec![Obstacle::LeftOut { reason }];
        }
        let mut obstacles = Vec::new();
        obstacles.extend(self.no_group(device));
        if !device.is_bound_to_vfio() {
            obstacles.extend(self.no_driver(device.bus));
        }
        // Before the device is bound: the driver refuses it then.
        obstacles.extend(self.no_reset(device));
        obstacles.extend(not_bound(device));
        obstacles.extend(self.not_viable(device));
        if device.is_bound_to_vfio() {
            obstacles.extend(access::obstacles(self, device));
        }
        obstacles
    }

    fn no_group(&self, device: &HostDevice) -> Option<Obstacle> {
        let cause = match device.group {
            None => NoIommu::read(self),
            Some(_) => {
                let name = files::text(&device.path.join("iommu_group/name"));
                if name.as_deref() != Some("vfio-noiommu") {
                    return None;
                }
                NoIommu::UnsafeMode
            }
        };
        Some(Obstacle::NoIommuGroup { cause })
    }

    /// A driver that is loaded or built in has a folder on its bus.
    fn no_driver(&self, bus: Bus) -> Option<Obstacle> {
        let driver = bus.vfio_driver();
        let is_there = self.bus(bus).join("drivers").join(driver).exists();
        (!is_there).then(|| Obstacle::NoModule {
            bus,
            state: self.modules().state(driver),
        })
    }

    fn no_reset(&self, device: &HostDevice) -> Option<Obstacle> {
        let parameter = self.sys("module/vfio_platform/parameters/reset_required");
        let required = device.bus == Bus::Platform
            && !device.is_bound_to_vfio()
            && files::text(&parameter).as_deref() != Some("N");
        (device.reset == Reset::Impossible).then_some(Obstacle::NoReset { required })
    }

    fn not_viable(&self, device: &HostDevice) -> Option<Obstacle> {
        let group = device.group?;
        let mut members = self.group(group).members;
        members.retain(|member| member.name != device.name && !member.leaves_the_group_viable());
        (!members.is_empty()).then_some(Obstacle::GroupNotViable { group, members })
    }
}

fn not_bound(device: &HostDevice) -> Option<Obstacle> {
    if device.is_bound_to_vfio() {
        return None;
    }
    let (bus, name) = (device.bus, device.name.clone());
    Some(match device.driver.clone() {
        Some(driver) => Obstacle::BoundToDriver { bus, name, driver },
        None => Obstacle::NotBound { bus, name },
    })
}
