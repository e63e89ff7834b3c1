//! The memory that the kernel keeps for the processes of a cgroup, as it counts it in `memory.stat` (Linux
//! Documentation/admin-guide/cgroup-v2.rst): `kernel`, which is there since Linux 5.18, without page tables. What KVM
//! allocates for a guest is in it (`GFP_KERNEL_ACCOUNT`). The root cgroup has no such count.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use procfs::process::Process;
use procfs::{CpuInfo, Current};
use vm_memory::VolatileMemory;
use vm_memory::mmap::MmapRegion;

/// How often a count has to be the same, one reading after the other, before it is settled.
const EQUAL: u32 = 3;
const PAUSE: Duration = Duration::from_millis(4);
/// Readings until the last one is taken as it is: others in the cgroup may never let it settle.
const MOST_READINGS: u32 = 50;

const PAGE: usize = 4096;
/// The pages that a CPU may have counted before the kernel adds them to the cgroup's count (`MEMCG_CHARGE_BATCH`).
const BATCH: usize = 64;

/// A cgroup for which the kernel counts memory, with this process in it.
#[derive(Debug)]
pub(crate) struct CountedGroup {
    stat: PathBuf,
}

impl CountedGroup {
    /// The cgroup of this process. `None` if it is the root, or if the kernel does not count or show its own memory there.
    pub(crate) fn own() -> Option<Self> {
        let process = Process::myself().ok()?;
        let groups = process.cgroups().ok()?;
        let own = groups.into_iter().find(|group| group.hierarchy == 0)?;
        let mounts = process.mountinfo().ok()?;
        let mount = mounts
            .into_iter()
            .find(|mount| mount.fs_type == "cgroup2")?;
        Self::at(&mount.mount_point.join(own.pathname.trim_start_matches('/')))
    }

    fn at(folder: &Path) -> Option<Self> {
        // The root has a memory.stat, too, in which nothing is the kernel's.
        if !folder.join("memory.current").exists() {
            return None;
        }
        let stat = folder.join("memory.stat");
        let group = Self { stat };
        group.read().map(|_| group)
    }

    /// The bytes that the kernel keeps, once it has freed what it frees later, and counted what it counts later.
    pub(crate) fn settled(&self) -> Option<u64> {
        let cpus = CpuInfo::current().ok()?.num_cores();
        let (mut last, mut equal) = (None, 0);
        for _ in 0..MOST_READINGS {
            add_up(cpus).ok()?;
            let now = self.read();
            equal = if now == last { equal + 1 } else { 0 };
            last = now;
            if equal == EQUAL {
                break;
            }
            thread::sleep(PAUSE);
        }
        last
    }

    fn read(&self) -> Option<u64> {
        let stat = fs::read_to_string(&self.stat).ok()?;
        let field = |name: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
        };
        // Page tables are counted with the processes.
        Some(field("kernel")?.saturating_sub(field("pagetables")?))
    }
}

/// Makes the kernel add up its counts. They lag by a batch of pages for each CPU, and are added up when they have changed by more
/// (Linux `memcg_vmstats_needs_flush()`). So this charges twice that number of pages, and uncharges them again.
fn add_up(cpus: usize) -> io::Result<()> {
    let pages = 2 * BATCH * cpus;
    let region = MmapRegion::<()>::new(pages * PAGE).map_err(io::Error::other)?;
    for page in 0..pages {
        let byte = region.get_ref::<u8>(page * PAGE);
        byte.map_err(io::Error::other)?.store(1);
    }
    Ok(())
}

#[cfg(test)]
#[path = "kernel_memory_test.rs"]
mod tests;
