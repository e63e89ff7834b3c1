//! `--device NAME[,PROPERTY=VALUE]...`: [`DeviceWords`] is what the user writes, whose types are the grammar (see `grammar`), and
//! [`RunDevice`] what it means.

mod grammar;
mod virtio;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use self::virtio::{BlkArgs, UserBlkArgs, VirtioNetArgs, VirtioWaysArgs, VsockArgs};
pub(super) use self::virtio::{DiskFile, TapLink, VirtioDevice, VirtioWays};
use crate::args::values::size;
use crate::confine::DeviceNeeds;
use vmbell_devices::pci_testdev::PciTestdevConfig;

/// A device to plug in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunDevice {
    /// A console by which the guest ends the machine with a code.
    ChrTestdev,
    /// Interrupt lines, ports and memory to test with.
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
    pub(super) const fn shares_memory(&self) -> bool {
        matches!(
            self,
            Self::Virtio(VirtioDevice::UserBlk(_), _)
                | Self::VirtioMmio(VirtioDevice::UserBlk(_), _)
        )
    }

    /// Whether the backend has to store what the driver says with its notifications.
    pub(super) const fn needs_payloads(&self) -> bool {
        matches!(self, Self::Virtio(_, ways) if ways.notification_data)
    }

    /// What the guest's threads need for it, besides what they always need.
    pub(super) const fn needs(&self, devices: &mut DeviceNeeds) {
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

/// A device of the host, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssignedDevice {
    /// Its name on its bus, such as `0000:00:03.0`.
    pub(super) host: String,
    /// Whether its registers are mapped where they can be.
    pub(super) mmap: bool,
    /// For a platform device: a compiled device tree that describes it.
    pub(super) dtb: Option<PathBuf>,
}

/// A device as the user writes it.
#[derive(Clone, Debug, Subcommand)]
enum DeviceWords {
    /// A source of random bytes
    VirtioRng(VirtioWaysArgs),
    /// A console on standard input and output; the serial port then has no input
    VirtioConsole(VirtioWaysArgs),
    /// A disk
    VirtioBlk(BlkArgs),
    /// A network interface
    VirtioNet(VirtioNetArgs),
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
enum OnOff {
    On,
    Off,
}

impl OnOff {
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
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    pv: OnOff,
}

/// `vfio-pci`.
#[derive(Args, Clone, Debug)]
struct PciArgs {
    /// The device's address, for example 0000:00:03.0
    #[arg(long, value_name = "ADDRESS")]
    host: String,
    /// Map the device's registers into the guest
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    mmap: OnOff,
}

/// `vfio-platform`.
#[derive(Args, Clone, Debug)]
struct PlatformArgs {
    /// The device's name, for example 9010000.pl031
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Map the device's registers into the guest
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    mmap: OnOff,
    /// A compiled device tree that describes the device, in place of the host's
    #[arg(long, value_name = "FILE")]
    dtb: Option<PathBuf>,
}

impl TryFrom<DeviceWords> for RunDevice {
    type Error = String;

    fn try_from(given: DeviceWords) -> Result<Self, String> {
        Ok(match given {
            DeviceWords::VirtioRng(ways) => ways.of(VirtioDevice::Rng)?,
            DeviceWords::VirtioConsole(ways) => ways.of(VirtioDevice::Console)?,
            DeviceWords::VirtioBlk(args) => args.device()?,
            DeviceWords::VirtioNet(args) => args.device()?,
            DeviceWords::VirtioVsock(args) => args.device()?,
            DeviceWords::VhostUserBlk(args) => args.device()?,
            DeviceWords::VfioPci(PciArgs { host, mmap }) => Self::VfioPci(AssignedDevice {
                host,
                mmap: mmap.is_on(),
                dtb: None,
            }),
            DeviceWords::VfioPlatform(PlatformArgs { host, mmap, dtb }) => {
                Self::VfioPlatform(AssignedDevice {
                    host,
                    mmap: mmap.is_on(),
                    dtb,
                })
            }
            DeviceWords::PcTestdev => Self::PcTestdev,
            DeviceWords::PciTestdev(TestdevArgs { membar, pv }) => {
                Self::PciTestdev(PciTestdevConfig {
                    membar,
                    pv: pv.is_on(),
                })
            }
            DeviceWords::ChrTestdev => Self::ChrTestdev,
        })
    }
}

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<RunDevice, String> {
    grammar::parse::<DeviceWords>(text)?.try_into()
}

/// What `--help` says of `--device`.
pub(super) fn help() -> String {
    grammar::help::<DeviceWords>()
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
