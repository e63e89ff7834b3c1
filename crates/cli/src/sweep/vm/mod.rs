//! How each VMM is started, paused, resumed, saved and restored. Each family of VMMs has its own file.

mod cloud_hypervisor;
mod described;
mod error;
mod firecracker;
mod qemu;

use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::statvfs;
use tempfile::TempDir;

use self::cloud_hypervisor::CloudHypervisor;
use self::described::Described;
pub(super) use self::error::VmError;
use self::error::{answered, transferred};
use self::firecracker::Firecracker;
use self::qemu::Qemu;
use crate::process::RunningProgram;
use crate::process::program::on_path;
use vmbell_bench::{CommandLimit, did_you_mean};
use vmbell_sweep::report::{Device, Event, Traffic};

/// Guest memory. No mapping of a VMM has this size by chance: a thread's stack is smaller, an allocator's arena larger.
pub(super) const MEMORY_MIB: u64 = 16;
pub(super) const MEMORY: u64 = MEMORY_MIB << 20;
/// The most bytes that a snapshot may have.
pub(super) const MAX_SNAPSHOT: u64 = 4 * MEMORY;
/// The time limit of each command to a VMM.
pub(super) const COMMAND: Duration = Duration::from_secs(5);
/// The most bytes kept of each of a VMM's output streams.
const MOST_OUTPUT: usize = 1 << 20;
/// Why a VMM does not have the migration event.
const NO_MIGRATION: &str = "vmbell cannot pause its migration to look at the rings";
/// The size of the disk.
const DISK: u64 = 1 << 20;

/// A VMM that can be swept.
pub(super) trait SweptVmm {
    /// Its name.
    fn name(&self) -> &str;

    /// Its program, or why it cannot run here.
    fn program(&self) -> Result<PathBuf, String>;

    /// `kvm`, or `tcg` for a QEMU without KVM.
    fn accelerator(&self) -> &'static str {
        "kvm"
    }

    /// Why it does not have this event with this device; `None` if it does.
    fn lacks(&self, event: Event, device: Device) -> Option<String>;

    /// Whether it has a rate limiter for this device.
    fn limits(&self, device: Device) -> bool;

    /// Starts a guest.
    fn start(&self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError>;

    /// Restores a snapshot in a new process, where it goes on.
    fn restore(&self, guest: &SweepGuest<'_>, snapshot: &Path)
    -> Result<Box<dyn SweptVm>, VmError>;

    /// The file of a snapshot that has guest memory from address 0 on; `None` if there is no such file.
    fn memory_file(&self, snapshot: &Path) -> Option<PathBuf>;
}

/// A VM. Its process ends when it is dropped.
pub(super) trait SweptVm {
    /// The process.
    fn process(&mut self) -> &mut RunningProgram;

    /// Pauses the guest; returns when it is paused.
    fn pause(&mut self) -> Result<(), VmError>;

    /// Lets a paused guest go on.
    fn resume(&mut self) -> Result<(), VmError>;

    /// Saves a paused guest in an empty folder.
    fn snapshot(&mut self, folder: &Path) -> Result<(), VmError>;

    /// Sends a running guest to another process, which it returns. All but the last part is sent: the guest is paused.
    fn send(&mut self, _: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        Err(VmError::Vmm(NO_MIGRATION.to_owned()))
    }

    /// Sends the last part. The guest goes on in the other process.
    fn switch_over(&mut self) -> Result<(), VmError> {
        Err(VmError::Vmm(NO_MIGRATION.to_owned()))
    }
}

/// What a guest is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct SweepGuest<'a> {
    /// The files.
    pub(super) desk: &'a SweepFolder<'a>,
    /// The command line of the image.
    pub(super) cmdline: &'a str,
    /// The traffic.
    pub(super) traffic: &'a Traffic,
    /// The time for which the VMM's rate limiter holds back a request in milliseconds; 0 without a limiter.
    pub(super) limiter_ms: u32,
}

/// The folder of a sweep: the image, the disk, and files of each VM with names of their own.
#[derive(Debug)]
pub(super) struct SweepFolder<'a> {
    folder: TempDir,
    next: Cell<u32>,
    pub(super) limit: &'a CommandLimit,
}

impl<'a> SweepFolder<'a> {
    /// Writes the image and the disk.
    pub(super) fn new(limit: &'a CommandLimit) -> Result<Self> {
        let folder = TempDir::with_prefix("vmbell-sweep-");
        let desk = Self {
            folder: folder.context("cannot make a temporary folder")?,
            next: Cell::new(0),
            limit,
        };
        fs::write(desk.image(), vmbell_probe_image::ELF)
            .and_then(|()| fs::write(desk.bzimage(), vmbell_probe_image::bzimage()))
            .and_then(|()| fs::File::create(desk.disk())?.set_len(DISK))
            .context("cannot write the guest's image and disk")?;
        Ok(desk)
    }

    pub(super) fn image(&self) -> PathBuf {
        self.folder.path().join("probe.elf")
    }

    pub(super) fn bzimage(&self) -> PathBuf {
        self.folder.path().join("probe.bz")
    }

    pub(super) fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// The bytes that are free for the sweep's files.
    pub(super) fn free(&self) -> Result<u64> {
        let free = statvfs(self.folder.path()).context("cannot ask for the free space")?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    /// A path for a new file of a VM.
    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.folder.path().join(format!("{name}{number}"))
    }
}

/// Starts a VMM.
pub(super) fn spawn(words: &[OsString]) -> Result<RunningProgram> {
    let program = || words[0].to_string_lossy().into_owned();
    RunningProgram::start(words, MOST_OUTPUT, &[])
        .with_context(|| format!("cannot run {}", program()))
}

/// Splits an own command line with placeholders in braces, and fills these in.
pub(super) fn filled(words: &str, values: &[(&str, &str)]) -> Vec<OsString> {
    let fill = |word: &str| {
        let fill = |word: String, (name, value): &(&str, &str)| word.replace(name, value);
        values.iter().fold(word.to_owned(), fill).into()
    };
    words.split_ascii_whitespace().map(fill).collect()
}

/// A path as a word of a command line or a request. The sweep's own folder has no other characters.
pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("the path {} is not text", path.display()))
}

/// A value of `--vmm`.
#[derive(Clone, Debug)]
pub(super) enum VmmOption {
    /// The program of a known VMM.
    Program(String, String),
    /// The description of another VMM.
    File(PathBuf),
}

impl VmmOption {
    pub(super) fn program(&self) -> Option<&str> {
        match self {
            Self::Program(_, program) => Some(program),
            Self::File(_) => None,
        }
    }

    /// Whether it gives the VMM with this name.
    pub(super) fn names(&self, vmm: &str) -> bool {
        match self {
            Self::Program(name, _) => name == vmm,
            // Each description adds a VMM.
            Self::File(_) => !KNOWN.contains(&vmm),
        }
    }

    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Program(..) => None,
            Self::File(file) => Some(file),
        }
    }
}

impl fmt::Display for VmmOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name, program) => write!(f, "{name}={program}"),
            Self::File(file) => write!(f, "{}", file.display()),
        }
    }
}

impl FromStr for VmmOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            _ if text.ends_with(".toml") => Ok(Self::File(text.into())),
            Some((name, program)) if KNOWN.contains(&name) && !program.is_empty() => {
                Ok(Self::Program(name.to_owned(), program.to_owned()))
            }
            Some((name, _)) => Err(format!(
                "there is no known VMM '{name}'{}; a file that describes a VMM ends in .toml",
                did_you_mean(name, &KNOWN)
            )),
            None => Err("expected NAME=PATH, or a FILE that ends in .toml".to_owned()),
        }
    }
}

/// The VMMs that need no description.
const KNOWN: [&str; 5] = [
    "qemu-pc",
    "qemu-q35",
    "qemu-microvm",
    cloud_hypervisor::NAME,
    firecracker::NAME,
];

/// The VMMs with these names; without names, the known ones and all that are described.
pub(super) fn chosen(names: &[String], options: &[VmmOption]) -> Result<Vec<Box<dyn SweptVmm>>> {
    let mut described = Vec::new();
    for file in options.iter().filter_map(VmmOption::file) {
        described.push(Described::read(file)?);
    }
    let mut known: Vec<&str> = KNOWN.into();
    known.extend(described.iter().map(Described::given_name));
    let given = |name: &str| {
        options.iter().rev().find_map(|option| match option {
            VmmOption::Program(of, program) if of == name => Some(program.clone()),
            _ => None,
        })
    };
    let wanted: Vec<&str> = match names {
        [] => known.clone(),
        names => names.iter().map(String::as_str).collect(),
    };
    let mut chosen: Vec<Box<dyn SweptVmm>> = Vec::new();
    for (index, name) in wanted.iter().enumerate() {
        if wanted[..index].contains(name) {
            bail!("the VMM {name} is named twice");
        }
        let other = described.iter().find(|vmm| vmm.given_name() == *name);
        chosen.push(match *name {
            _ if other.is_some() => Box::new(other.context("a VMM is described")?.clone()),
            cloud_hypervisor::NAME => Box::new(CloudHypervisor::new(given(name))),
            firecracker::NAME => Box::new(Firecracker::new(given(name))),
            _ => match Qemu::new(name, given(name)) {
                Some(qemu) => Box::new(qemu),
                None => bail!(
                    "there is no VMM '{name}' that can be swept{}; there are {}",
                    did_you_mean(name, &known),
                    known.join(", ")
                ),
            },
        });
    }
    Ok(chosen)
}

/// The program that the user gives for a VMM, or that of its usual name.
fn find(given: Option<&String>, usual: &str) -> Result<PathBuf, String> {
    on_path(given.map_or(usual, String::as_str))
}
