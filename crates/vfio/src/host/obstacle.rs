//! What stands between a device and a guest, and the shell commands that mend it.

use super::bus::Bus;
use super::group::Member;
use super::iommu::NoIommu;
use super::left_out::LeftOut;
use super::modules::ModuleState;
use super::quote::quote;

/// What stands in the way of assigning a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The device is none that is assigned.
    #[error("the device {}", reason.reason())]
    LeftOut {
        /// Why.
        reason: LeftOut,
    },
    /// The device has no IOMMU group, so nothing would confine its DMA to the guest's memory.
    #[error("no iommu group: {}", cause.reason())]
    NoIommuGroup {
        /// Why.
        cause: NoIommu,
    },
    /// The kernel has not got the driver that hands out devices of this bus.
    #[error("{}", module_text(*bus, state))]
    NoModule {
        /// The bus.
        bus: Bus,
        /// Whether it can be had.
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
        /// The members that stand in the way.
        members: Vec<Member>,
    },
    /// There is no way to reset the device, so it keeps what its last user left in it.
    #[error("no reset: the guest finds the device as its last user left it{}", if *required { ", and vfio-platform refuses that" } else { "" })]
    NoReset {
        /// The driver refuses a device that cannot be reset.
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
        /// Who would open it.
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

    /// Whether the device cannot be assigned before this is mended. Others are warnings.
    pub const fn is_blocking(&self) -> bool {
        !matches!(self, Self::NoReset { required: false })
    }

    /// The commands for root's shell that mend it; a line that begins with `#` says what has to be done by hand.
    /// Empty if nothing can be done.
    pub fn fix(&self) -> Vec<String> {
        match self {
            Self::LeftOut { .. } | Self::NoReset { required: false } => Vec::new(),
            Self::NoIommuGroup { cause } => cause.fix(),
            Self::NoModule { bus, state } => vec![match state {
                ModuleState::NotLoaded => format!("modprobe {}", bus.vfio_driver()),
                ModuleState::NotBuilt { .. } => {
                    format!("# use a kernel with {}=m", bus.kernel_option())
                }
                ModuleState::NoModules { release } => format!(
                    "# install the modules of kernel {release}, or use a kernel with {}=m",
                    bus.kernel_option()
                ),
            }],
            Self::BoundToDriver { bus, name, .. } => bind(*bus, name, true),
            Self::NotBound { bus, name } => bind(*bus, name, false),
            Self::GroupNotViable { members, .. } => members.iter().flat_map(give_up).collect(),
            Self::NoReset { required: true } => vec![
                "modprobe -r vfio-platform".to_owned(),
                "modprobe vfio-platform reset_required=0".to_owned(),
            ],
            Self::NoContainer => vec!["modprobe vfio".to_owned()],
            Self::NoFile { path } => vec![format!(
                "# let the container or chroot that this runs in have {path}"
            )],
            Self::NoPermission { path, user } => vec![format!("chown {user} {path}")],
        }
    }
}

/// The driver of VFIO's instead of the host's.
fn bind(bus: Bus, name: &str, is_bound: bool) -> Vec<String> {
    let device = format!("/sys/bus/{bus}/devices/{name}");
    let name = quote(name);
    let mut lines = vec![format!(
        "echo {} > {}",
        bus.vfio_driver(),
        quote(&format!("{device}/driver_override"))
    )];
    if is_bound {
        let unbind = format!("{device}/driver/unbind");
        lines.push(format!("echo {name} > {}", quote(&unbind)));
    }
    lines.push(format!("echo {name} > /sys/bus/{bus}/drivers_probe"));
    lines
}

/// A member of a group whose other member is assigned. What is no bridge gets the driver of VFIO's, so that the host
/// does not bind another one to it.
fn give_up(member: &Member) -> Vec<String> {
    let Some(bus) = member.bus else {
        return vec![format!("# unbind {} from its driver", member.name)];
    };
    if member.is_bridge {
        let unbind = format!("/sys/bus/{bus}/devices/{}/driver/unbind", member.name);
        return vec![format!("echo {} > {}", quote(&member.name), quote(&unbind))];
    }
    bind(bus, &member.name, true)
}
