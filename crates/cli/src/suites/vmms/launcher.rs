//! The VMMs that can run the image: their programs and command lines, with each VMM's default CPU model and interrupt
//! controller.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{Accel, VmmDeviceName};
use super::libkrun;
use super::template::{TemplateValues, VmmTemplate, filled};
use crate::process::program::{no_kvm, on_path, own};
use crate::suites::boots::BootWay;

/// QEMU's program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// QEMU's options for no default devices, and a serial port on standard output.
pub(crate) const BARE: &str = "-nodefaults -no-user-config -no-reboot -display none -serial stdio";

/// QEMU's arguments, with placeholders for what differs between boards.
const BOARD: [&str; 4] = ["{board}", "{bus}", "{rom}", "{more}"];
const QEMU_WORDS: &str = "-M {board},accel={accel} -smp {cpus} -m {memory} {bare} -kernel {image} -append {cmdline} {more}";

/// The arguments of QEMU's devices. The user network needs no rights and does not receive the image's frames; a hub
/// with no other port would not accept them.
const QEMU_DEVICES: &[(VmmDeviceName, &str)] = &[
    (VmmDeviceName::Rng, "-device virtio-rng-{bus}"),
    (
        VmmDeviceName::Blk,
        "-drive if=none,id=disk,format=raw,file={disk,,} -device virtio-blk-{bus},drive=disk",
    ),
    (
        VmmDeviceName::Console,
        "-chardev null,id=nobody -device virtio-serial-{bus} -device virtconsole,chardev=nobody",
    ),
    (
        VmmDeviceName::Net,
        "-netdev user,id=net,restrict=on -device virtio-net-{bus},netdev=net{rom}",
    ),
];

const ALIOTH: &str = "alioth";
const VMBELL: &str = "vmbell";

const CLOUD_HYPERVISOR: &str = "cloud-hypervisor";
const CROSVM: &str = "crosvm";
const FIRECRACKER: &str = "firecracker";
const KVMTOOL: &str = "lkvm";
const LIBKRUN: &str = "libkrun";
const STRATOVIRT: &str = "stratovirt";

/// The programs that the lab copies into L1 if they are on PATH, in addition to its own QEMU and vmbell.
pub(crate) const CARRIED: [&str; 6] = [
    ALIOTH,
    CLOUD_HYPERVISOR,
    CROSVM,
    FIRECRACKER,
    KVMTOOL,
    STRATOVIRT,
];

/// The VMMs that this program knows, in the order of the table.
const KNOWN: [KnownVmm; 13] = [
    // The image needs no boot ROM.
    qemu("qemu-pc", ["pc", "pci", ",romfile=", ""]),
    qemu("qemu-q35", ["q35", "pci", ",romfile=", ""]),
    // The image supports only virtio 1.0.
    qemu(
        "qemu-microvm",
        [
            "microvm",
            "device",
            "",
            "-global virtio-mmio.force-legacy=false",
        ],
    ),
    KnownVmm {
        name: ALIOTH,
        program: ALIOTH,
        version: VERSION,
        words: "boot --pvh {image} -c {cmdline} --cpu count={cpus} --memory size={memory}M",
        board: [""; 4],
        devices: &[
            (VmmDeviceName::Rng, "--entropy"),
            (VmmDeviceName::Blk, "--blk file,path={disk}"),
        ],
    },
    vmbell(
        VMBELL,
        "run {image} --memory {memory}M --vcpus {cpus} --append {cmdline}",
    ),
    vmbell(
        "vmbell-micro",
        "run {image} --machine micro --memory {memory}M --vcpus {cpus} --append {cmdline}",
    ),
    KnownVmm {
        name: CLOUD_HYPERVISOR,
        program: CLOUD_HYPERVISOR,
        version: VERSION,
        words: "--kernel {image} --cmdline {cmdline} --cpus boot={cpus} --memory size={memory}M \
                --serial tty --console off",
        board: [""; 4],
        devices: &[
            (VmmDeviceName::Rng, "--rng src=/dev/urandom"),
            (VmmDeviceName::Blk, "--disk path={disk},image_type=raw"),
        ],
    },
    KnownVmm {
        name: CROSVM,
        program: CROSVM,
        version: Some("version"),
        // This VMM always has an entropy device. Its sandbox needs a folder from a distribution's package.
        words: "run --disable-sandbox --cpus {cpus} --mem {memory} \
                --serial type=stdout,hardware=serial,num=1 -p {cmdline} {image}",
        board: [""; 4],
        devices: &[(VmmDeviceName::Blk, "--block {disk}")],
    },
    // Firecracker's devices are in the configuration.
    firecracker(FIRECRACKER, "--no-api --config-file {config}"),
    firecracker(
        "firecracker-pci",
        "--no-api --enable-pci --config-file {config}",
    ),
    KnownVmm {
        name: "kvmtool",
        program: KVMTOOL,
        version: Some("version"),
        words: "run --kernel {bzimage} --params {cmdline} --mem {memory} --cpus {cpus} --console serial \
                --name vmbell",
        board: [""; 4],
        devices: &[
            (VmmDeviceName::Rng, "--rng"),
            (VmmDeviceName::Blk, "--disk {disk}"),
        ],
    },
    KnownVmm {
        name: LIBKRUN,
        program: libkrun::LIBRARY,
        version: None,
        // This program loads the library. The guest always has an entropy device.
        words: "{image} --cmdline {cmdline} --cpus {cpus} --memory {memory}",
        board: [""; 4],
        devices: &[(VmmDeviceName::Blk, "--disk {disk}")],
    },
    KnownVmm {
        name: STRATOVIRT,
        program: STRATOVIRT,
        version: VERSION,
        words: "-machine microvm -smp {cpus} -m 256 -kernel {bzimage} -append {cmdline} \
                -serial stdio -qmp unix:{disk}.qmp,server,nowait -D {disk}.log",
        board: [""; 4],
        devices: &[
            (
                VmmDeviceName::Rng,
                "-object rng-random,id=r,filename=/dev/urandom \
                 -device virtio-rng-device,rng=r,id=rng0,max-bytes=100000000,period=1000",
            ),
            (
                VmmDeviceName::Blk,
                "-drive file={disk},id=d,readonly=off,direct=off -device virtio-blk-device,drive=d,id=b",
            ),
        ],
    },
];

/// The argument that makes most programs print their version.
const VERSION: Option<&str> = Some("--version");

const fn vmbell(name: &'static str, words: &'static str) -> KnownVmm {
    KnownVmm {
        name,
        program: VMBELL,
        version: VERSION,
        words,
        board: [""; 4],
        devices: &[
            (VmmDeviceName::Rng, "--device virtio-rng"),
            (VmmDeviceName::Blk, "--device virtio-blk,file={disk,,}"),
        ],
    }
}

const fn firecracker(name: &'static str, words: &'static str) -> KnownVmm {
    KnownVmm {
        name,
        program: FIRECRACKER,
        version: VERSION,
        words,
        board: [""; 4],
        devices: &[],
    }
}

const fn qemu(name: &'static str, board: [&'static str; 4]) -> KnownVmm {
    KnownVmm {
        name,
        program: QEMU,
        version: VERSION,
        words: QEMU_WORDS,
        board,
        devices: QEMU_DEVICES,
    }
}

/// A VMM that this program knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownVmm {
    name: &'static str,
    program: &'static str,
    /// The argument with which the VMM prints its version, if there is one.
    version: Option<&'static str>,
    /// The VMM's arguments, separated by blanks.
    words: &'static str,
    /// The values of the placeholders in [`BOARD`], for QEMU.
    board: [&'static str; 4],
    /// The devices that the VMM supports, each with its arguments.
    devices: &'static [(VmmDeviceName, &'static str)],
}

impl KnownVmm {
    /// The arguments of a boot with these devices, with placeholders.
    fn words(&self, devices: &[VmmDeviceName]) -> Vec<String> {
        let mut text = self.words.to_owned();
        for (_, words) in self
            .devices
            .iter()
            .filter(|(device, _)| devices.contains(device))
        {
            text.extend([" ", words]);
        }
        for (place, value) in BOARD.into_iter().zip(self.board).chain([("{bare}", BARE)]) {
            text = text.replace(place, value);
        }
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// A VMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VmmLauncher {
    /// A VMM that vmbell knows, with the path of its program if the user gave it.
    Known(&'static KnownVmm, Option<String>),
    /// A VMM that the user describes.
    Template(VmmTemplate),
}

/// A VMM with the image as its guest.
#[derive(Clone, Debug)]
pub(super) struct VmmCandidate {
    /// The VMM.
    pub(super) launcher: VmmLauncher,
    /// `kvm` or `tcg`.
    pub(super) accel: &'static str,
    /// Why the VMM cannot run here with this accelerator; `None` if it can.
    obstacle: Option<String>,
}

impl VmmCandidate {
    /// The VMM with this choice of `--accel`.
    pub(super) fn new(launcher: VmmLauncher, accel: Accel) -> Self {
        let emulates = match accel {
            Accel::Auto => no_kvm().is_some(),
            Accel::Kvm => false,
            Accel::Tcg => true,
        };
        Self {
            accel: match launcher.is_qemu() && emulates {
                true => "tcg",
                false => "kvm",
            },
            obstacle: launcher.obstacle(accel),
            launcher,
        }
    }
}

impl BootWay for VmmCandidate {
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

/// The VMMs that this program knows.
pub(super) fn known() -> Vec<VmmLauncher> {
    let known = KNOWN.iter();
    known.map(|known| VmmLauncher::Known(known, None)).collect()
}

impl VmmLauncher {
    /// The column's name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Known(known, _) => known.name,
            Self::Template(template) => &template.name,
        }
    }

    /// Returns the same VMM with another program: a name on PATH, or a path.
    pub(super) fn with_program(&self, program: &str) -> Self {
        match self {
            Self::Known(known, _) => Self::Known(known, Some(program.to_owned())),
            Self::Template(_) => self.clone(),
        }
    }

    /// The program's path, or why it was not found.
    pub(super) fn find(&self) -> Result<PathBuf, String> {
        match self {
            Self::Known(known, program) if known.name == LIBKRUN => {
                libkrun::find(program.as_deref())
            }
            Self::Known(_, Some(program)) => on_path(program),
            Self::Known(known, None) if known.program == VMBELL => own(),
            Self::Known(known, None) => on_path(known.program),
            Self::Template(template) => on_path(template.words.first().map_or("", String::as_str)),
        }
    }

    /// The program that the lab copies from this host; `None` for QEMU and vmbell, which the lab has.
    pub(super) fn program_in_lab(&self) -> Option<&str> {
        match self {
            Self::Known(known, None) => CARRIED.into_iter().find(|name| *name == known.program),
            Self::Known(_, Some(program)) => Some(program.as_str()),
            Self::Template(template) => template.words.first().map(String::as_str),
        }
        .filter(|program| *program != QEMU)
    }

    fn is_qemu(&self) -> bool {
        matches!(self, Self::Known(known, _) if known.program == QEMU)
    }

    /// Why the VMM cannot run here with this `accel`; `None` if it can.
    pub(super) fn obstacle(&self, accel: Accel) -> Option<String> {
        match (self, accel) {
            (Self::Template(_), _) => None,
            (Self::Known(..), Accel::Kvm) => no_kvm(),
            (Self::Known(..), _) if self.is_qemu() => None,
            (Self::Known(..), Accel::Tcg) => Some("it has no TCG, only KVM".to_owned()),
            (Self::Known(..), Accel::Auto) => no_kvm(),
        }
    }

    /// The program's argument that prints its version; `None` if it has no such argument.
    pub(super) const fn version(&self) -> Option<&'static str> {
        match self {
            Self::Known(known, _) => known.version,
            Self::Template(_) => None,
        }
    }

    /// Whether the VMM's command line has this placeholder.
    pub(super) fn has(&self, place: &str) -> bool {
        match self {
            Self::Known(known, _) => known.words.contains(place),
            Self::Template(template) => template.words.iter().any(|word| word.contains(place)),
        }
    }

    /// The command line of a boot with these devices, if the VMM supports them.
    pub(super) fn words(
        &self,
        program: &Path,
        places: TemplateValues<'_>,
        devices: &[VmmDeviceName],
    ) -> Vec<OsString> {
        let words = match self {
            Self::Known(known, _) => known.words(devices),
            Self::Template(template) => template.words[1..].to_vec(),
        };
        let filled = words.iter().map(|word| filled(word, places));
        let loader = match self {
            Self::Known(known, _) if known.name == LIBKRUN => &libkrun::LOADER[..],
            _ => &[],
        };
        let loader = loader.iter().map(OsString::from);
        loader.chain([program.into()]).chain(filled).collect()
    }
}

#[cfg(test)]
#[path = "launcher_test.rs"]
mod tests;
