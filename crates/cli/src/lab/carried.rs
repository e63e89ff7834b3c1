//! Files of this host that a suite needs in L1: VMMs, and the parts of a Linux guest.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::needs::LINUX;
use super::parts::LabParts;
use crate::exit::Usage;
use crate::process::program::on_path;
use crate::suites::net::DRIVERS;
use crate::suites::vmms::{CARRIED, QEMU};
use vmbell_lab::arch::Arch;
use vmbell_lab::cache::Cache;
use vmbell_lab::kernel::ModuleTree;
use vmbell_lab::{Emulator, Lab, LabKernel, Provision};

/// The folder for VMMs in L1.
const PROGRAMS: &str = "/usr/local/bin";
/// Runs the script that starts QEMU.
const SHELL: &str = "/bin/sh";

/// Files to copy, and a folder for those that are generated.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Files of this host, each with its path in L1.
    pub(super) files: Vec<(PathBuf, PathBuf)>,
    /// Scripts, each with its path in L1.
    pub(super) scripts: Vec<(PathBuf, String)>,
    made: Option<TempDir>,
}

impl Carried {
    /// Adds the lab's QEMU with all that it needs, and the other VMMs on PATH.
    pub(super) fn vmms(&mut self, lab: &Lab, host: Arch, parts: &LabParts) -> anyhow::Result<()> {
        let same = |path: PathBuf| (path.clone(), path);
        let qemu = match &lab.emulator {
            Emulator::Qemu(qemu) => qemu.clone(),
            Emulator::Bochs(..) => parts.carried_qemu(host)?,
        };
        self.files.extend(qemu.files().into_iter().map(same));
        // The interpreter of QEMU's script, with its libraries.
        let shell = fs::canonicalize(SHELL).context("this host has no shell")?;
        self.files.push((shell, SHELL.into()));
        let place = Path::new(PROGRAMS).join(QEMU);
        self.scripts.push((place, qemu.script()));
        for program in CARRIED {
            if let Ok(path) = on_path(program) {
                self.files.push((path, Path::new(PROGRAMS).join(program)));
            }
        }
        Ok(())
    }

    /// Adds the programs and libraries of the user's VMMs, under the names by which L1 finds them. Fails if a file is
    /// missing here, unless `may_be_there` says that the user's copied files may include it.
    pub(super) fn programs<'a>(
        &mut self,
        programs: impl Iterator<Item = &'a str>,
        may_be_there: bool,
    ) -> anyhow::Result<()> {
        // L1 already has the lab's QEMU under this name.
        for program in programs.filter(|program| *program != QEMU) {
            let path = match to_copy(program) {
                Ok(path) => path,
                Err(_) if may_be_there => continue,
                Err(reason) => {
                    let text = format!("--vmm: its program cannot be copied into L1: {reason}");
                    return Err(Usage::new(text).into());
                }
            };
            let place = match program.contains('/') {
                true => path.clone(),
                false => Path::new(PROGRAMS).join(program),
            };
            self.files.push((path, place));
        }
        Ok(())
    }

    /// Adds L1's own kernel as the guest's.
    pub(super) fn kernel(&mut self, lab: &Lab) {
        self.files
            .push((lab.kernel.image.clone(), LINUX[0].1.into()));
    }

    /// Adds L1's own kernel and its drivers for the guest, and busybox and netperf, which are downloaded.
    pub(super) fn linux(&mut self, lab: &Lab, host: Arch, parts: &LabParts) -> anyhow::Result<()> {
        let cache = Cache::user()?;
        let mut provision = Provision::new(host, &lab.board, &cache, parts.progress());
        let busybox = provision.shell(false)?.context("there is no busybox")?;
        let programs = provision.netperf()?;
        provision.finish()?;
        let modules = drivers(&lab.kernel)?;
        let files = [
            lab.kernel.image.clone(),
            modules.path().to_path_buf(),
            busybox,
            programs.netperf,
            programs.netserver,
        ];
        let places = LINUX.map(|(_, place)| place.into());
        self.files.extend(files.into_iter().zip(places));
        self.made = Some(modules);
        Ok(())
    }
}

/// Parses `HOST` or `HOST:PATH`. If the whole argument is an existing file, its colon is part of the name. Relative
/// paths are relative to the working directory, on both sides.
pub(super) fn copied(argument: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("--with {}", path.display()))
    };
    if !argument.exists()
        && let Some((host, path)) = argument.to_str().and_then(|text| text.split_once(':'))
    {
        let path = absolute(path.as_ref())?;
        return Ok((absolute(host.as_ref())?, without_ways_up(&path)));
    }
    let host = absolute(argument)?;
    Ok((host.clone(), without_ways_up(&host)))
}

/// Removes each `..` with the folder before it, because L1 has only the folders that something was copied into.
fn without_ways_up(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// The path of a VMM's program or library, or why it cannot be copied.
pub(crate) fn to_copy(program: &str) -> Result<PathBuf, String> {
    match on_path(program) {
        Err(_) if is_library(program) => Ok(program.into()),
        found => found,
    }
}

/// Whether `path` is a shared library's, which need not be executable.
fn is_library(path: &str) -> bool {
    path.contains(".so") && Path::new(path).is_file()
}

/// A folder with the guest's drivers and the modules that they depend on.
fn drivers(kernel: &LabKernel) -> anyhow::Result<TempDir> {
    let from = kernel.modules.as_ref().context(
        "the lab's kernel has no modules: name their folder with `vmbell lab kernel --modules`",
    )?;
    let folder =
        TempDir::with_prefix("vmbell-modules-").context("cannot make a temporary folder")?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).with_context(|| format!("cannot write {name}"))
    };
    for module in ModuleTree::open(from, kernel.release())?.load_order(&DRIVERS)? {
        write(&format!("{}.ko", module.name), &module.bytes)?;
    }
    // This file lists the drivers that are built in and have no file.
    const BUILTIN: &str = "modules.builtin";
    write(BUILTIN, &fs::read(from.join(BUILTIN)).unwrap_or_default())?;
    Ok(folder)
}
