//! QEMU's command line for the image, with the CPU model and the interrupt controller that the board has by default.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::args::Device;
use super::launcher::Setup;

/// The program.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// The options of a machine without what QEMU adds by itself, whose serial line is its standard output.
pub(crate) const BARE: [&str; 7] = [
    "-nodefaults",
    "-no-user-config",
    "-no-reboot",
    "-display",
    "none",
    "-serial",
    "stdio",
];

/// A board of QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Board {
    /// i440FX, with PCI.
    Pc,
    /// Q35, with PCI Express.
    Q35,
    /// microvm, with virtio-mmio.
    Microvm,
}

impl Board {
    /// The name of its column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pc => "qemu-pc",
            Self::Q35 => "qemu-q35",
            Self::Microvm => "qemu-microvm",
        }
    }

    const fn machine(self) -> &'static str {
        match self {
            Self::Pc => "pc",
            Self::Q35 => "q35",
            Self::Microvm => "microvm",
        }
    }
}

/// The arguments of a boot.
pub(super) fn arguments(board: Board, setup: &Setup<'_>) -> Vec<OsString> {
    let machine = format!("{},accel={}", board.machine(), setup.accel);
    let cpus = setup.cpus.to_string();
    let mut words: Vec<OsString> = ["-M", &machine, "-smp", &cpus, "-m", "64"]
        .map(Into::into)
        .into();
    words.extend(BARE.map(Into::into));
    words.extend(["-kernel".into(), setup.places.image.into()]);
    words.extend(["-append".into(), setup.places.cmdline.into()]);
    let bus = match board {
        Board::Pc | Board::Q35 => "pci",
        Board::Microvm => {
            // The image knows virtio 1.0 only.
            words.extend(["-global".into(), "virtio-mmio.force-legacy=false".into()]);
            "device"
        }
    };
    if setup.has(Device::Rng) {
        words.extend(["-device".into(), format!("virtio-rng-{bus}").into()]);
    }
    if setup.has(Device::Blk) {
        let mut drive = OsString::from("if=none,id=disk,format=raw,file=");
        drive.push(escaped(setup.places.disk));
        let device = format!("virtio-blk-{bus},drive=disk");
        words.extend(["-drive".into(), drive, "-device".into(), device.into()]);
    }
    if setup.has(Device::Console) {
        let serial = format!("virtio-serial-{bus}");
        let null = ["-chardev", "null,id=nobody", "-device", &serial];
        words.extend(null.map(OsString::from));
        words.extend(["-device", "virtconsole,chardev=nobody"].map(Into::into));
    }
    if setup.has(Device::Net) {
        // QEMU's own network needs no rights, and has nobody for the image's frames: a hub with no other port would not
        // take them. The image needs no boot ROM.
        let rom = match board {
            Board::Pc | Board::Q35 => ",romfile=",
            Board::Microvm => "",
        };
        let card = format!("virtio-net-{bus},netdev=net{rom}");
        let user = ["-netdev", "user,id=net,restrict=on", "-device", &card];
        words.extend(user.map(OsString::from));
    }
    words
}

/// A path as the value of an option, where QEMU takes two commas for one that belongs to the value.
fn escaped(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    OsString::from_vec(
        bytes
            .split(|byte| *byte == b',')
            .collect::<Vec<_>>()
            .join(&b",,"[..]),
    )
}
