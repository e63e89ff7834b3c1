//! Virtio devices: what the user writes ([`VirtioWaysArgs`] and a type for each device), and what it means.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::grammar::OnOff;
use super::model::{DiskFile, RunDevice, TapLink, VirtioDevice, VirtioWays};
use vmbell_devices::virtio::net::{Mac, Offloads};
use vmbell_devices::virtio::vhost::Cid;
use vmbell_devices::virtio::{DiskSerial, Notify, Raise};

/// The heading of the properties of all virtio devices.
const EVERY: &str = "Every virtio device and vhost-user-blk";

/// How a virtio device is presented and served.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = EVERY)]
pub(super) struct VirtioWaysArgs {
    /// Handle notifications on a thread that an ioeventfd wakes (ioeventfd), on one thread for all queues that also
    /// polls before it sleeps (poll), or on the vCPU's thread during its exit (exit) [default: ioeventfd; poll with
    /// --nested-guest]
    #[arg(long, value_enum)]
    notify: Option<NotifyBy>,
    /// Raise interrupts by an irqfd, or by a call for each message
    #[arg(long, value_enum, default_value_t = RaiseBy::Irqfd)]
    interrupt: RaiseBy,
    /// Also let the driver notify at I/O ports, where an exit costs less than at an address in memory [default: on with
    /// transport=pci]
    #[arg(long, value_enum)]
    notify_ports: Option<OnOff>,
    /// Offer packed rings to the driver
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    packed: OnOff,
    /// Let each notification say how far the driver is (VIRTIO_F_NOTIFICATION_DATA)
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    notification_data: OnOff,
    /// Put the registers on the PCI bus, or in memory with an interrupt line (always so on arm64)
    #[arg(long, value_enum, default_value_t = Transport::Pci)]
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NotifyBy {
    Ioeventfd,
    Poll,
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RaiseBy {
    Irqfd,
    Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    Pci,
    Mmio,
}

impl VirtioWaysArgs {
    /// The device with these settings.
    pub(super) fn of(&self, device: VirtioDevice) -> Result<RunDevice, String> {
        let ways = VirtioWays {
            notify: self.notify.map(|notify| match notify {
                NotifyBy::Ioeventfd => Notify::Doorbell,
                NotifyBy::Poll => Notify::Poll,
                NotifyBy::Exit => Notify::Exit,
            }),
            raise: match self.interrupt {
                RaiseBy::Irqfd => Raise::Irqfd,
                RaiseBy::Call => Raise::Call,
            },
            notify_ports: self
                .notify_ports
                .map_or(self.transport == Transport::Pci, OnOff::is_on),
            packed: self.packed.is_on(),
            notification_data: self.notification_data.is_on(),
        };
        if ways.notify_ports && self.transport == Transport::Mmio {
            return Err(
                "notify-ports needs transport=pci: MMIO registers have no ports".to_owned(),
            );
        }
        if ways.notification_data {
            if ways.notify == Some(Notify::Exit) {
                return Err("notification-data needs notify=ioeventfd or notify=poll".to_owned());
            }
            if self.transport == Transport::Mmio {
                return Err(
                    "notification-data needs transport=pci: MMIO has one notification register for all queues"
                        .to_owned(),
                );
            }
        }
        Ok(match self.transport {
            Transport::Pci => RunDevice::Virtio(device, ways),
            Transport::Mmio => RunDevice::VirtioMmio(device, ways),
        })
    }

    /// Like [`of`](Self::of), for a device whose queues are served by `server`, which supports neither packed rings nor
    /// polling nor notification data.
    fn of_worker(&self, device: VirtioDevice, server: &str) -> Result<RunDevice, String> {
        let notify = self.notify.unwrap_or(NotifyBy::Ioeventfd);
        if self.packed.is_on() {
            return Err(format!(
                "{server} does not support packed rings: leave packed out"
            ));
        }
        if notify == NotifyBy::Poll {
            return Err(format!("{server} does not poll: leave notify=poll out"));
        }
        if self.notification_data.is_on() {
            return Err(format!(
                "{server} does not support notification data: leave notification-data out"
            ));
        }
        let given = Self {
            notify: Some(notify),
            ..self.clone()
        };
        given.of(device)
    }
}

/// `virtio-blk`.
#[derive(Args, Clone, Debug)]
pub(super) struct BlkArgs {
    /// The disk's image, or a block device, for example disk.img
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Let the guest only read the disk
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    readonly: OnOff,
    /// Give the guest the file's bytes, even if the file is in a format such as qcow2
    #[arg(long, value_enum)]
    format: Option<ImageFormat>,
    /// Refuse a file that another program, such as QEMU, has locked: any number of guests may read it, or one may write
    /// to it
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    lock: OnOff,
    /// The serial number that the guest sees, at most 20 bytes
    #[arg(long, value_name = "TEXT")]
    serial: Option<DiskSerial>,
    #[command(flatten)]
    ways: VirtioWaysArgs,
}

/// The format of a disk's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImageFormat {
    Raw,
}

impl BlkArgs {
    pub(super) fn device(self) -> Result<RunDevice, String> {
        let drive = DiskFile {
            file: self.file,
            readonly: self.readonly.is_on(),
            is_raw: self.format == Some(ImageFormat::Raw),
            locks: self.lock.is_on(),
            serial: self.serial.unwrap_or_default(),
        };
        self.ways.of(VirtioDevice::Blk(drive))
    }
}

/// `virtio-net`.
#[derive(Args, Clone, Debug)]
pub(super) struct VirtioNetArgs {
    /// The tap of the host at the other end (`ip tuntap add dev tap0 mode tap user $USER`), for example tap0
    #[arg(long, value_name = "NAME")]
    tap: String,
    /// The guest's Ethernet address [default: derived from the tap's name]
    #[arg(long, value_name = "ADDRESS")]
    mac: Option<Mac>,
    /// Let the kernel's vhost-net move the packets
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    vhost: OnOff,
    /// Allow packets that are longer than a frame, and without checksums
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    offload: OnOff,
    #[command(flatten)]
    ways: VirtioWaysArgs,
}

impl VirtioNetArgs {
    pub(super) fn device(self) -> Result<RunDevice, String> {
        let link = VirtioDevice::Net(TapLink {
            mac: self.mac.unwrap_or_else(|| Mac::of(&self.tap)),
            tap: self.tap,
            offloads: match self.offload {
                OnOff::On => Offloads::On,
                OnOff::Off => Offloads::Off,
            },
            vhost: self.vhost.is_on(),
        });
        match self.vhost {
            OnOff::On => self.ways.of_worker(link, "the kernel's vhost-net"),
            OnOff::Off => self.ways.of(link),
        }
    }
}

/// `vhost-user-blk`.
#[derive(Args, Clone, Debug)]
pub(super) struct UserBlkArgs {
    /// The socket at which the other process listens, for example /run/disk
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    ways: VirtioWaysArgs,
}

impl UserBlkArgs {
    pub(super) fn device(self) -> Result<RunDevice, String> {
        let disk = VirtioDevice::UserBlk(self.socket);
        self.ways.of_worker(disk, "a back end of vhost-user")
    }
}

/// `virtio-vsock`.
#[derive(Args, Clone, Debug)]
pub(super) struct VsockArgs {
    /// The guest's context ID, for example 3
    #[arg(long, value_name = "N")]
    cid: Cid,
    #[command(flatten)]
    ways: VirtioWaysArgs,
}

impl VsockArgs {
    pub(super) fn device(self) -> Result<RunDevice, String> {
        let sockets = VirtioDevice::Vsock(self.cid);
        self.ways.of_worker(sockets, "the kernel's vhost-vsock")
    }
}

#[cfg(test)]
#[path = "virtio_test.rs"]
mod tests;
