//! QEMU's command line for the image, with the CPU model and the interrupt controller that the board has by default.

use std::ffi::OsString;

use super::args::Device;
use super::launcher::Setup;

/// The program.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

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
    let mut words: Vec<OsString> = ["-M", &machine, "-m", "64"].map(Into::into).into();
    words.extend(
        [
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
        ]
        .map(Into::into),
    );
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
        drive.push(setup.places.disk);
        let device = format!("virtio-blk-{bus},drive=disk");
        words.extend(["-drive".into(), drive, "-device".into(), device.into()]);
    }
    words
}
