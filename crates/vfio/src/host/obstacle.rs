//! What prevents the assignment of a device, in the order in which it has to be fixed.
//!
//! The files in `/dev` through which a device is opened are checked without opening them: the first process that opens
//! a group gets it, and all others get `EBUSY`. Any thread may check.

use std::io;

use super::bus::Bus;
use super::device::{HostDevice, LeftOut, Reset};
use super::files::{self, Host};
use super::iommu::{Member, NoIommu};
use super::modules::ModuleState;

/// What prevents the assignment of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The device is not a candidate for assignment.
    #[error("the device {}", reason.reason())]
    LeftOut {
        /// Why the device is not a candidate.
        reason: LeftOut,
    },
    /// The device has no IOMMU group, so nothing would confine its DMA to the guest's memory.
    #[error("no iommu group: {}", cause.reason())]
    NoIommuGroup {
        /// Why the device has no group.
        cause: NoIommu,
    },
    /// The kernel does not have the driver that assigns devices of this bus.
    #[error("{}", module_text(*bus, state))]
    NoModule {
        /// The bus.
        bus: Bus,
        /// Whether the driver can be loaded.
        state: ModuleState,
    },
    /// The host's own driver has the device.
    #[error("bound to the host's driver {driver}, which loses the device")]
    BoundToDriver {
        /// The bus.
        bus: Bus,
        /// The device.
        name: String,
        /// The driver.
        driver: String,
    },
    /// No driver has the device.
    #[error("not bound to {}", bus.vfio_driver())]
    NotBound {
        /// The bus.
        bus: Bus,
        /// The device.
        name: String,
    },
    /// Drivers of the host have other devices of the group.
    #[error("group {group} is not viable: {}", members_text(members))]
    GroupNotViable {
        /// The group.
        group: u32,
        /// The members that prevent the assignment.
        members: Vec<Member>,
    },
    /// There is no way to reset the device, so it keeps what its last user left in it.
    #[error("no reset: the guest finds the device as its last user left it{}", if *required { ", and vfio-platform refuses that" } else { "" })]
    NoReset {
        /// Whether the driver refuses a device that cannot be reset.
        required: bool,
    },
    /// `/dev/vfio/vfio` is missing.
    #[error("no /dev/vfio/vfio")]
    NoContainer,
    /// A file in `/dev` is missing, though the device is bound.
    #[error("no {path}")]
    NoFile {
        /// The file.
        path: String,
    },
    /// This process may not open a file.
    #[error("no permission to open {path}")]
    NoPermission {
        /// The file.
        path: String,
        /// The user who would open the file.
        user: u32,
    },
}

fn module_text(bus: Bus, state: &ModuleState) -> String {
    let driver = bus.vfio_driver();
    match state {
        ModuleState::NotLoaded => format!("module {driver} is not loaded"),
        ModuleState::NotBuilt { release } => format!("the kernel {release} has no module {driver}"),
        ModuleState::NoModules { release } => {
            format!("no driver {driver}, and no modules in /lib/modules/{release}")
        }
    }
}

fn members_text(members: &[Member]) -> String {
    let texts: Vec<_> = members
        .iter()
        .map(|Member { name, driver, .. }| {
            let driver = driver.as_deref().unwrap_or_default();
            format!("{name} is bound to the host's driver {driver}")
        })
        .collect();
    texts.join(", ")
}

impl Obstacle {
    /// The obstacle in a few words, for a table.
    pub const fn short(&self) -> &'static str {
        match self {
            Self::LeftOut { .. } => "no candidate",
            Self::NoIommuGroup { .. } => "no iommu group",
            Self::NoModule { .. } => "module absent",
            Self::BoundToDriver { .. } => "driver bound",
            Self::NotBound { .. } => "not bound",
            Self::GroupNotViable { .. } => "group not viable",
            Self::NoReset { .. } => "no reset",
            Self::NoContainer | Self::NoFile { .. } => "no /dev/vfio file",
            Self::NoPermission { .. } => "no permission",
        }
    }

    /// Whether the obstacle prevents an assignment until it is removed. Other obstacles are warnings.
    pub const fn is_blocking(&self) -> bool {
        !matches!(self, Self::NoReset { required: false })
    }
}

impl Host {
    /// What prevents the assignment of the device, in the order in which it has to be fixed. If no obstacle is
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
        // Listed before binding, because the driver refuses to bind the device without a reset.
        obstacles.extend(self.no_reset(device));
        obstacles.extend(not_bound(device));
        obstacles.extend(self.not_viable(device));
        if device.is_bound_to_vfio() {
            obstacles.extend(file_obstacles(self, device));
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

    /// Checks for the driver's folder on its bus, which a loaded or built-in driver has.
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

/// Returns what keeps this process from opening the device's files: the container and the group, or iommufd and the
/// device. One of the two ways is enough.
fn file_obstacles(host: &Host, device: &HostDevice) -> Vec<Obstacle> {
    let device_file = device
        .cdev
        .as_ref()
        .map(|cdev| format!("vfio/devices/{cdev}"));
    let by_iommufd = device_file.is_some_and(|file| {
        let files = [file.as_str(), "iommu"];
        files.iter().all(|file| file_obstacle(host, file).is_none())
    });
    let Some(group) = device.group.filter(|_| !by_iommufd) else {
        return Vec::new();
    };
    let files = ["vfio/vfio".to_owned(), format!("vfio/{group}")];
    files
        .iter()
        .filter_map(|file| file_obstacle(host, file))
        .collect()
}

fn file_obstacle(host: &Host, file: &str) -> Option<Obstacle> {
    let path = host.dev(file);
    let error = (host.may_open)(&path).err()?;
    let path = format!("/dev/{file}");
    Some(match error.kind() {
        io::ErrorKind::NotFound if file == "vfio/vfio" => Obstacle::NoContainer,
        io::ErrorKind::NotFound => Obstacle::NoFile { path },
        _ => Obstacle::NoPermission {
            path,
            user: host.user,
        },
    })
}
