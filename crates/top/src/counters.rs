//! The source `counters`: KVM's own statistics of each VM, read from debugfs.
//!
//! Reading them costs the VMs nothing; they have no addresses. `/sys/kernel/debug/kvm/PID-FD/` has one file per
//! statistic, summed over all vCPUs; PID is the thread that created the VM, FD its descriptor there. The folder
//! disappears with the VM.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folder of the statistics.
pub const FOLDER: &str = "/sys/kernel/debug/kvm";

/// Whether the statistics name the vCPUs' threads. KVM makes a folder for a vCPU only if it has statistics for it.
pub(crate) const TELLS_THREADS: bool = cfg!(target_arch = "x86_64");

/// The statistics that are read for each VM. A kernel may lack some.
pub const NAMES: [&str; 12] = [
    "exits",
    "halt_attempted_poll",
    "halt_exits",
    "halt_poll_fail_ns",
    "halt_poll_success_ns",
    "halt_successful_poll",
    "halt_wakeup",
    "io_exits",
    "irq_exits",
    "irq_injections",
    "mmio_exits",
    "signal_exits",
];

/// The folder of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directory {
    /// The thread that created the VM.
    pub creator: u32,
    /// The VM's descriptor in the process of that thread.
    pub fd: u32,
    /// Tells this folder from an earlier one with the same name.
    pub(crate) inode: u64,
}

/// The statistics of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The numbers of the vCPUs, and their threads.
    pub vcpus: BTreeMap<u32, u32>,
    /// Whether the kernel reports no vCPU, so that the VM cannot run.
    pub has_no_vcpu: bool,
    /// The [`NAMES`] that the kernel has, with their values.
    pub values: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// The known threads of the VM in this folder: those of its vCPUs, and the thread that created it.
    pub(crate) fn threads(&self, directory: Directory) -> impl Iterator<Item = u32> {
        let vcpus = self.vcpus.values().copied();
        vcpus.chain([directory.creator])
    }
}

/// Why there are no statistics.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// debugfs is not mounted, or has no folder of KVM.
    #[error(
        "{} does not exist: mount debugfs (`mount -t debugfs none /sys/kernel/debug`), or load kvm", folder.display()
    )]
    Absent {
        /// The folder.
        folder: PathBuf,
    },
    /// The files' permissions forbid reading them.
    #[error("debugfs is for root: run as root or with CAP_DAC_READ_SEARCH")]
    NotRoot,
    /// The kernel forbids reading the files.
    #[error("the kernel's lockdown (Secure Boot) forbids debugfs")]
    Lockdown,
    /// Reading failed for another reason.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Reads the statistics of all VMs.
pub fn read(folder: &Path) -> Result<BTreeMap<Directory, Statistics>, CountersError> {
    let entries = fs::read_dir(folder).map_err(|source| explain(folder, source))?;
    let mut all = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|source| explain(folder, source))?.path();
        let Some((creator, fd)) = path.file_name().and_then(|name| parse(name.to_str()?)) else {
            continue;
        };
        // The VM may end meanwhile.
        let Some(metadata) = if_there(fs::metadata(&path), &path)? else {
            continue;
        };
        if let Some(statistics) = statistics(&path)? {
            let inode = metadata.ino();
            let directory = Directory { creator, fd, inode };
            all.insert(directory, statistics);
        }
    }
    Ok(all)
}

/// Reads the statistics in a folder; `None` if the VM has ended.
fn statistics(folder: &Path) -> Result<Option<Statistics>, CountersError> {
    let mut statistics = Statistics::default();
    for name in NAMES {
        if let Some(value) = number(&folder.join(name))? {
            statistics.values.insert(name, value);
        }
    }
    let Some(entries) = if_there(fs::read_dir(folder), folder)? else {
        return Ok(None);
    };
    statistics.has_no_vcpu = TELLS_THREADS;
    for entry in entries {
        let Some(entry) = if_there(entry, folder)? else {
            return Ok(None);
        };
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("vcpu"));
        let id = id.and_then(|id| id.parse().ok());
        statistics.has_no_vcpu &= id.is_none();
        if let Some(id) = id
            && let Some(thread) = number(&entry.path().join("pid"))?
        {
            // A vCPU that has not run yet has no thread.
            let thread = u32::try_from(thread).ok().filter(|thread| *thread != 0);
            statistics.vcpus.extend(thread.map(|thread| (id, thread)));
        }
    }
    // If a VM ends while its folder is read, some of the files are missing.
    let is_there = if_there(fs::metadata(folder), folder)?.is_some();
    Ok(is_there.then_some(statistics))
}

fn number(path: &Path) -> Result<Option<u64>, CountersError> {
    let text = if_there(fs::read_to_string(path), path)?;
    Ok(text.and_then(|text| text.trim().parse().ok()))
}

fn if_there<T>(result: io::Result<T>, path: &Path) -> Result<Option<T>, CountersError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // debugfs returns EIO while it removes a file.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
        Err(error) => Err(explain(path, error)),
    }
}

fn explain(path: &Path, source: io::Error) -> CountersError {
    let path = path.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT) => CountersError::Absent { folder: path },
        Some(libc::EACCES) => CountersError::NotRoot,
        Some(libc::EPERM) => CountersError::Lockdown,
        _ => CountersError::Read { path, source },
    }
}

/// Splits a folder's name into the thread and the descriptor.
fn parse(name: &str) -> Option<(u32, u32)> {
    let (creator, fd) = name.split_once('-')?;
    Some((creator.parse().ok()?, fd.parse().ok()?))
}

#[cfg(test)]
#[path = "counters_test.rs"]
mod tests;
