//! The VMMs that can run the image: where their programs are, and the command line of a boot.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{Accel, Device};
use super::template::{Places, Template};
use super::{alioth, qemu};
use crate::columns::Way;
use crate::program::{no_kvm, on_path};

/// A VMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    /// QEMU with one of its boards.
    Qemu(qemu::Board),
    /// alioth.
    Alioth,
    /// `vmbell run`.
    Vmbell,
    /// One that the user describes.
    Template(Template),
}

/// A VMM with the image as its guest.
#[derive(Clone, Debug)]
pub(super) struct Vmm {
    /// The VMM.
    pub(super) launcher: Launcher,
    /// `kvm` or `tcg`.
    pub(super) accel: &'static str,
    /// Why it cannot run here with this choice, if it cannot.
    obstacle: Option<String>,
}

impl Vmm {
    /// The VMM with this choice of `--accel`.
    pub(super) fn new(launcher: Launcher, accel: Accel) -> Self {
        let emulates = match accel {
            Accel::Auto => no_kvm().is_some(),
            Accel::Kvm => false,
            Accel::Tcg => true,
        };
        Self {
            accel: match &launcher {
                Launcher::Qemu(_) if emulates => "tcg",
                _ => "kvm",
            },
            obstacle: launcher.obstacle(accel),
            launcher,
        }
    }
}

impl Way for Vmm {
    fn name(&self) -> &str {
        self.launcher.name()
    }

    fn program(&self) -> Result<PathBuf, String> {
        let program = self.launcher.find()?;
        self.obstacle.clone().map_or(Ok(program), Err)
    }

    fn version(&self) -> Option<&'static str> {
        self.launcher.version()
    }

    fn is_emulated(&self) -> bool {
        self.accel == "tcg"
    }
}

/// What a boot has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    /// The image's path, its command line and the path of the disk.
    pub(super) places: Places<'a>,
    /// The devices to plug in.
    pub(super) devices: &'a [Device],
    /// How many vCPUs.
    pub(super) cpus: u32,
    /// `kvm` or `tcg`, for QEMU.
    pub(super) accel: &'a str,
}

impl Setup<'_> {
    /// Whether the device is to be plugged in.
    pub(super) fn has(&self, device: Device) -> bool {
        self.devices.contains(&device)
    }
}

/// The VMMs that this program knows, in the order of the table.
pub(super) fn known() -> Vec<Launcher> {
    let boards = [qemu::Board::Pc, qemu::Board::Q35, qemu::Board::Microvm];
    let mut known: Vec<Launcher> = boards.map(Launcher::Qemu).into();
    known.extend([Launcher::Alioth, Launcher::Vmbell]);
    known
}

impl Launcher {
    /// The name of its column.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Qemu(board) => board.name(),
            Self::Alioth => "alioth",
            Self::Vmbell => "vmbell",
            Self::Template(template) => &template.name,
        }
    }

    /// The program that it needs.
    pub(super) fn program(&self) -> &str {
        match self {
            Self::Qemu(_) => qemu::PROGRAM,
            Self::Alioth => alioth::PROGRAM,
            Self::Vmbell => "vmbell",
            Self::Template(template) => template.program(),
        }
    }

    /// The path of the program, or why there is none.
    pub(super) fn find(&self) -> Result<PathBuf, String> {
        match self {
            Self::Vmbell => std::env::current_exe()
                .map_err(|error| format!("cannot tell where vmbell itself is: {error}")),
            _ => on_path(self.program()),
        }
    }

    /// Why it cannot run here with this choice of `accel`, if it cannot.
    pub(super) fn obstacle(&self, accel: Accel) -> Option<String> {
        let needs_kvm = match self {
            Self::Qemu(_) => accel == Accel::Kvm,
            Self::Alioth | Self::Vmbell if accel == Accel::Tcg => {
                return Some("it has no TCG, only KVM".to_owned());
            }
            Self::Alioth | Self::Vmbell => true,
            Self::Template(_) => false,
        };
        needs_kvm.then(no_kvm).flatten()
    }

    /// The program's arguments that make it print its version; `None` if it is not asked for that.
    pub(super) const fn version(&self) -> Option<&'static str> {
        match self {
            Self::Qemu(_) | Self::Alioth | Self::Vmbell => Some("--version"),
            Self::Template(_) => None,
        }
    }

    /// The command line of a boot.
    pub(super) fn words(&self, program: &Path, setup: &Setup<'_>) -> Vec<OsString> {
        let mut words = vec![program.into()];
        match self {
            Self::Qemu(board) => words.extend(qemu::arguments(*board, setup)),
            Self::Alioth => words.extend(alioth::arguments(setup)),
            Self::Vmbell => {
                words.extend([
                    "run".into(),
                    setup.places.image.into(),
                    "--memory".into(),
                    "64M".into(),
                    "--vcpus".into(),
                    setup.cpus.to_string().into(),
                    "--append".into(),
                    setup.places.cmdline.into(),
                ]);
                if setup.has(Device::Rng) {
                    words.extend(["--device", "virtio-rng"].map(Into::into));
                }
                if setup.has(Device::Blk) {
                    let mut disk = OsString::from("virtio-blk,file=");
                    disk.push(setup.places.disk);
                    words.extend(["--device".into(), disk]);
                }
            }
            Self::Template(template) => {
                words.extend(template.words(setup.places).into_iter().skip(1));
            }
        }
        words
    }
}

#[cfg(test)]
#[path = "launcher_test.rs"]
mod tests;
