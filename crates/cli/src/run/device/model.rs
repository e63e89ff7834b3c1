//! The devices of `--device`, as the machine takes them.

use std::path::PathBuf;

use crate::confine::DeviceNeeds;
use vmbell_devices::pci_testdev::PciTestdevConfig;
use vmbell_devices::virtio::net::{Mac, Offloads};
use vmbell_devices::virtio::vhost::Cid;
use vmbell_devices::virtio::{DiskSerial, Notify, Raise, VirtioConfig};

/// A device to plug in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunDevice {
    /// A console through which the guest ends the machine with a code.
    ChrTestdev,
    /// Interrupt lines, ports and memory for tests.
    PcTestdev,
    /// Doorbells to measure, on the PCI bus.
    PciTestdev(PciTestdevConfig),
    /// A virtio device on the PCI bus.
    Virtio(VirtioDevice, VirtioWays),
    /// A virtio device on MMIO registers.
    VirtioMmio(VirtioDevice, VirtioWays),
    /// A PCI device of the host.
    VfioPci(AssignedDevice),
    /// A platform device of the host.
    VfioPlatform(AssignedDevice),
}

impl RunDevice {
    /// Whether another process maps the guest's memory.
    pub(crate) const fn shares_memory(&self) -> bool {
        matches!(
            self,
            Self::Virtio(VirtioDevice::UserBlk(_), _)
                | Self::VirtioMmio(VirtioDevice::UserBlk(_), _)
        )
    }

    /// Whether the backend must store the values that the driver writes with its notifications.
    pub(crate) const fn needs_payloads(&self) -> bool {
        matches!(self, Self::Virtio(_, ways) if ways.notification_data)
    }

    /// Adds what the guest's threads need for this device, beyond what they always need.
    pub(crate) const fn needs(&self, devices: &mut DeviceNeeds) {
        match self {
            Self::PcTestdev => devices.pc_testdev = true,
            Self::ChrTestdev | Self::PciTestdev(_) => {}
            Self::Virtio(device, _) | Self::VirtioMmio(device, _) => match device {
                VirtioDevice::Blk(_) => devices.disk = true,
                VirtioDevice::Net(link) => {
                    devices.tap = true;
                    devices.worker |= link.vhost;
                }
                VirtioDevice::Vsock(_) => devices.worker = true,
                VirtioDevice::UserBlk(_) => devices.user_worker = true,
                VirtioDevice::Console | VirtioDevice::Rng => {}
            },
            Self::VfioPci(_) | Self::VfioPlatform(_) => devices.assigned = true,
        }
    }
}

/// A device of the host, by the user's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssignedDevice {
    /// Its name on its bus, such as `0000:00:03.0`.
    pub(crate) host: String,
    /// Whether its registers are mapped where they can be.
    pub(crate) mmap: bool,
    /// For a platform device: a compiled device tree that describes it.
    pub(crate) dtb: Option<PathBuf>,
}

/// A virtio device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VirtioDevice {
    /// A disk.
    Blk(DiskFile),
    /// A console on standard input and output.
    Console,
    /// A network interface.
    Net(TapLink),
    /// Random bytes.
    Rng,
    /// A disk that another process serves through a socket.
    UserBlk(PathBuf),
    /// Sockets between programs of the guest and of the host.
    Vsock(Cid),
}

/// A disk's file and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskFile {
    /// A file or a block device.
    pub(crate) file: PathBuf,
    /// Whether the guest may only read.
    pub(crate) readonly: bool,
    /// Whether it is a raw image even if it begins like another format.
    pub(crate) is_raw: bool,
    /// Whether to lock it, and to refuse it if another program has locked it.
    pub(crate) locks: bool,
    pub(crate) serial: DiskSerial,
}

/// The two ends of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TapLink {
    /// The name of the tap, which is an interface of the host.
    pub(crate) tap: String,
    /// The Ethernet address of the guest's interface.
    pub(crate) mac: Mac,
    /// Whether packets may be longer than a frame, and lack checksums.
    pub(crate) offloads: Offloads,
    /// Whether vhost-net moves the packets.
    pub(crate) vhost: bool,
}

/// How a virtio device is served, if `--device` says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VirtioWays {
    pub(super) notify: Option<Notify>,
    pub(super) raise: Raise,
    pub(super) notify_ports: bool,
    pub(super) packed: bool,
    /// Whether the driver may send its position with a notification.
    pub(super) notification_data: bool,
}

impl VirtioWays {
    /// The device's configuration. Its driver notifies by `notify`, unless `--device` says otherwise.
    pub(crate) fn config(self, notify: Notify) -> VirtioConfig {
        VirtioConfig {
            notify: self.notify.unwrap_or(notify),
            raise: self.raise,
            notify_ports: self.notify_ports,
            packed: self.packed,
            notification_data: self.notification_data,
        }
    }
}
