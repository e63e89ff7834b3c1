//! `--device NAME[,PROPERTY=VALUE]...`: [`DeviceWords`] is what the user writes, parsed by `grammar`, and [`RunDevice`]
//! is what it means.

mod grammar;
mod model;
mod virtio;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::grammar::OnOff;
pub(super) use self::model::{AssignedDevice, DiskFile, RunDevice, TapLink, VirtioDevice};
use self::virtio::{BlkArgs, UserBlkArgs, VirtioNetArgs, VirtioWaysArgs, VsockArgs};
use crate::args::values::size;
use vmbell_devices::pci_testdev::PciTestdevConfig;

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
    /// A PCI device of the host that is bound to VFIO's driver (see docs/passthrough.md and
    /// `vmbell probe --devices`)
    VfioPci(PciArgs),
    /// A platform device of the host. Its registers are above 3 GiB and its interrupts on pins of the I/O APIC; stderr
    /// and --dump-dtb name both
    VfioPlatform(PlatformArgs),
    /// Interrupt lines (port 0x2000), a latch (port 0xe0) and memory (0xff000000) for kvm-unit-tests
    PcTestdev,
    /// Doorbells to measure, on the PCI bus
    PciTestdev(TestdevArgs),
    /// A console through which arm64's kvm-unit-tests exit with a status
    ChrTestdev,
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
    /// A compiled device tree that describes the device instead of the host's
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

/// The help text of `--device`.
pub(super) fn help() -> String {
    grammar::help::<DeviceWords>()
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
