//! Shell commands that remove what prevents the assignment of a device. They are only printed: binding a driver of the
//! host or changing its kernel is its owner's decision.

use std::borrow::Cow;

use vmbell_vfio::host::{Bus, Member, ModuleState, NoIommu, Obstacle};

/// The commands for root's shell that remove an obstacle; a line that begins with `#` says what to do by hand. Empty if
/// nothing can be done.
pub(crate) fn commands(obstacle: &Obstacle) -> Vec<String> {
    match obstacle {
        Obstacle::LeftOut { .. } | Obstacle::NoReset { required: false } => Vec::new(),
        Obstacle::NoIommuGroup { cause } => of_no_iommu(cause),
        Obstacle::NoModule { bus, state } => vec![match state {
            ModuleState::NotLoaded => format!("modprobe {}", bus.vfio_driver()),
            ModuleState::NotBuilt { .. } => {
                format!("# use a kernel with {}=m", kernel_option(*bus))
            }
            ModuleState::NoModules { release } => format!(
                "# install the modules of kernel {release}, or use a kernel with {}=m",
                kernel_option(*bus)
            ),
        }],
        Obstacle::BoundToDriver { bus, name, .. } => bind(*bus, name, true),
        Obstacle::NotBound { bus, name } => bind(*bus, name, false),
        Obstacle::GroupNotViable { members, .. } => members.iter().flat_map(give_up).collect(),
        Obstacle::NoReset { required: true } => vec![
            "modprobe -r vfio-platform".to_owned(),
            "modprobe vfio-platform reset_required=0".to_owned(),
        ],
        Obstacle::NoContainer => vec!["modprobe vfio".to_owned()],
        Obstacle::NoFile { path } => vec![format!(
            "# let the container or chroot that this runs in have {path}"
        )],
        Obstacle::NoPermission { path, user } => vec![format!("chown {user} {path}")],
    }
}

/// How to turn the IOMMU on.
fn of_no_iommu(cause: &NoIommu) -> Vec<String> {
    let lines: &[&str] = match cause {
        NoIommu::UnsafeMode => &[
            "echo N > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
            "# turn the iommu on, and start the host again",
        ],
        NoIommu::NotServed => &[
            "# no command can change this: the firmware assigns no iommu to the device",
            "# (in a device tree, its node has no iommus property)",
        ],
        NoIommu::TurnedOff { option } => {
            return vec![format!(
                "# remove {option} from the kernel's command line, and start the host again"
            )];
        }
        NoIommu::IntelOptionMissing => &[
            "# add intel_iommu=on to the kernel's command line (GRUB_CMDLINE_LINUX in",
            "# /etc/default/grub, then update-grub), and start the host again",
        ],
        NoIommu::IntelNotDescribed => &[
            "# turn VT-d on in the firmware's setup (in a virtual machine, its VMM gives it an",
            "# iommu: QEMU's -device intel-iommu), add intel_iommu=on to the kernel's command",
            "# line, and start the host again",
        ],
        NoIommu::AmdNotDescribed => &[
            "# turn AMD-Vi (IOMMU) on in the firmware's setup (in a virtual machine, its VMM",
            "# gives it an iommu: QEMU's -device amd-iommu), and start the host again; the",
            "# kernel needs no option",
        ],
        NoIommu::ArmNoSmmu => &[
            "# use a kernel with CONFIG_ARM_SMMU and CONFIG_ARM_SMMU_V3, on a machine whose",
            "# firmware describes an smmu (in a virtual machine, QEMU's -machine",
            "# virt,iommu=smmuv3); the kernel needs no option",
        ],
        NoIommu::Unknown => &["dmesg | grep -i -e iommu -e dmar -e smmu"],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// The option in the kernel's configuration for the VFIO driver of this bus.
const fn kernel_option(bus: Bus) -> &'static str {
    match bus {
        Bus::Pci => "CONFIG_VFIO_PCI",
        Bus::Platform => "CONFIG_VFIO_PLATFORM",
        Bus::Amba => "CONFIG_VFIO_AMBA",
    }
}

/// Binds VFIO's driver instead of the host's.
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

/// Frees the other members of a device's IOMMU group. A device that is not a bridge gets VFIO's driver, so that the
/// host does not bind another driver to it.
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

/// Quotes `word` so that a POSIX shell reads it as one word.
fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:,+@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
#[path = "remedy_test.rs"]
mod tests;
