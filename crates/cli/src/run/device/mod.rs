//! `--device NAME[,PROPERTY=VALUE]...`: [`Given`] is what the user writes, whose types are the grammar (see `grammar`), and
//! [`Device`] what it means.

mod grammar;
mod virtio;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use self::virtio::{BlkArgs, NetArgs, UserBlkArgs, VsockArgs, WaysArgs};
pub(super) use self::virtio::{Drive, Link, Virtio, Ways};
use crate::args::values::size;
use crate::confine::Devices;
use vmbell_devices::pci_testdev::PciTestdevConfig;

/// A device to plug in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// A console by which the guest ends the machine with a code.
    ChrTestdev,
    /// Interrupt lines, ports and memory to test with.
    PcTestdev,
    /// Doorbells to measure, on the PCI bus.
    PciTestdev(PciTestdevConfig),
    /// A virtio device on the PCI bus.
    Virtio(Virtio, Ways),
    /// A virtio device on MMIO registers.
    VirtioMmio(Virtio, Ways),
    /// A PCI device of the host.
    VfioPci(Assigned),
    /// A platform device of the host.
    VfioPlatform(Assigned),
}

impl Device {
    /// Whether another process maps the guest's memory.
    pub(super) const fn shares_memory(&self) -> bool {
        matches!(
            self,
            Self::Virtio(Virtio::UserBlk(_), _) | Self::VirtioMmio(Virtio::UserBlk(_), _)
        )
    }

    /// Whether the backend has to store what the driver says with its notifications.
    pub(super) const fn needs_payloads(&self) -> bool {
        matches!(self, Self::Virtio(_, ways) if ways.notification_data)
    }

    /// What the guest's threads need for it, besides what they always need.
    pub(super) const fn needs(&self, devices: &mut Devices) {
        match self {
            Self::PcTestdev => devices.pc_testdev = true,
            Self::ChrTestdev | Self::PciTestdev(_) => {}
            Self::Virtio(device, _) | Self::VirtioMmio(device, _) => match device {
                Virtio::Blk(_) => devices.disk = true,
                Virtio::Net(link) => {
                    devices.tap = true;
                    devices.worker |= link.vhost;
                }
                Virtio::Vsock(_) => devices.worker = true,
                Virtio::UserBlk(_) => devices.user_worker = true,
                Virtio::Console | Virtio::Rng => {}
            },
            Self::VfioPci(_) | Self::VfioPlatform(_) => devices.assigned = true,
        }
    }
}

/// A device of the host, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Its name on its bus, such as `0000:00:03.0`.
    pub(super) host: String,
    /// Whether its registers are mapped where they can be.
    pub(super) mmap: bool,
    /// For a platform device: a compiled device tree that describes it.
    pub(super) dtb: Option<PathBuf>,
}

/// A device as the user writes it.
#[derive(Clone, Debug, Subcommand)]
enum Given {
    /// A source of random bytes
    VirtioRng(WaysArgs),
    /// A console on standard input and output; the serial port then has no input
    VirtioConsole(WaysArgs),
    /// A disk
    VirtioBlk(BlkArgs),
    /// A network interface
    VirtioNet(NetArgs),
    /// Sockets between programs of the guest and of the host, by the kernel's vhost-vsock
    VirtioVsock(VsockArgs),
    /// A disk that another process serves
    VhostUserBlk(UserBlkArgs),
    /// A PCI device of the host, which is bound to VFIO's driver (docs/passthrough.md; `vmbell probe --devices` says what is
    /// in the way)
    VfioPci(PciArgs),
    /// A platform device of the host, with its registers above 3 GiB and its lines on pins of the I/O APIC, which stderr and
    /// --dump-dtb name
    VfioPlatform(PlatformArgs),
    /// Interrupt lines (port 0x2000), a latch (port 0xe0) and memory (0xff000000) for kvm-unit-tests
    PcTestdev,
    /// Doorbells to measure, on the PCI bus
    PciTestdev(TestdevArgs),
    /// A console by which arm64's kvm-unit-tests end with a status
    ChrTestdev,
}

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Switch {
    const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// `pci-testdev`.
#[derive(Args, Clone, Debug)]
struct TestdevArgs {
    /// Add a third BAR of this size
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = PciTestdevConfig::default().membar)]
    membar: u64,
    /// Add a fourth test to each BAR, a doorbell for writes of any length, and let the wildcard test take one byte only
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pv: Switch,
}

/// `vfio-pci`.
#[derive(Args, Clone, Debug)]
struct PciArgs {
    /// The device's address, for example 0000:00:03.0
    #[arg(long, value_name = "ADDRESS")]
    host: String,
    /// Map the device's registers into the guest
    #[arg(long, value_enum, default_value_t = Switch::On)]
    mmap: Switch,
}

/// `vfio-platform`.
#[derive(Args, Clone, Debug)]
struct PlatformArgs {
    /// The device's name, for example 9010000.pl031
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Map the device's registers into the guest
    #[arg(long, value_enum, default_value_t = Switch::On)]
    mmap: Switch,
    /// A compiled device tree that describes the device, in place of the host's
    #[arg(long, value_name = "FILE")]
    dtb: Option<PathBuf>,
}

impl TryFrom<Given> for Device {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        Ok(match given {
            Given::VirtioRng(ways) => ways.of(Virtio::Rng)?,
            Given::VirtioConsole(ways) => ways.of(Virtio::Console)?,
            Given::VirtioBlk(args) => args.device()?,
            Given::VirtioNet(args) => args.device()?,
            Given::VirtioVsock(args) => args.device()?,
            Given::VhostUserBlk(args) => args.device()?,
            Given::VfioPci(PciArgs { host, mmap }) => Self::VfioPci(Assigned {
                host,
                mmap: mmap.is_on(),
                dtb: None,
            }),
            Given::VfioPlatform(PlatformArgs { host, mmap, dtb }) => Self::VfioPlatform(Assigned {
                host,
                mmap: mmap.is_on(),
                dtb,
            }),
            Given::PcTestdev => Self::PcTestdev,
            Given::PciTestdev(TestdevArgs { membar, pv }) => Self::PciTestdev(PciTestdevConfig {
                membar,
                pv: pv.is_on(),
            }),
            Given::ChrTestdev => Self::ChrTestdev,
        })
    }
}

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<Device, String> {
    grammar::parse::<Given>(text)?.try_into()
}

/// What `--help` says of `--device`.
pub(super) fn help() -> String {
    grammar::help::<Given>()
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
