//! Files of this host that are carried into L1 for a suite: VMMs, and the parts of Linux as a guest.

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
use vmbell_lab::{Lab, LabKernel, Provision};

/// Where VMMs are found in L1.
const PROGRAMS: &str = "/usr/local/bin";
/// What runs the script that starts QEMU.
const SHELL: &str = "/bin/sh";

/// Files to carry, and the folder in which some of them are made.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Files of this host, each with its path in L1.
    pub(super) files: Vec<(PathBuf, PathBuf)>,
    /// Scripts, each with its path in L1.
    pub(super) scripts: Vec<(PathBuf, String)>,
    made: Option<TempDir>,
}

impl Carried {
    /// Adds the lab's QEMU, with all that it needs, and the other VMMs that are on PATH.
    pub(super) fn vmms(&mut self, lab: &Lab) -> anyhow::Result<()> {
        let same = |path: PathBuf| (path.clone(), path);
        let qemu = lab.emulator.qemu("a suite that compares VMMs")?;
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

    /// Adds the programs and libraries of the user's VMMs, by the names under which L1 finds them. One that is not here is an error, unless
    /// `may_be_there`: it is among other files that are copied.
    pub(super) fn programs<'a>(
        &mut self,
        programs: impl Iterator<Item = &'a str>,
        may_be_there: bool,
    ) -> anyhow::Result<()> {
        // L1 has the lab's QEMU by its name.
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

    /// Adds L1's own kernel and its drivers as the guest's, and busybox and netperf, which are downloaded.
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

/// Parses `HOST` or `HOST:PATH`; the name of a file that exists may contain a colon. A path that is not absolute is in the working
/// directory, there as here.
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

/// The path with each `..` and the folder before it taken out: L1 has only the folders that something was copied into.
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

/// Whether it is the path of a shared library, which need not be executable.
fn is_library(path: &str) -> bool {
    path.contains(".so") && Path::new(path).is_file()
}

/// A folder with the guest's drivers and what they depend on, of all modules of the kernel.
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
    // It names the drivers that have no file.
    const BUILTIN: &str = "modules.builtin";
    write(BUILTIN, &fs::read(from.join(BUILTIN)).unwrap_or_default())?;
    Ok(folder)
}
