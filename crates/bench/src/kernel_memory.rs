//! The memory that the kernel keeps for the processes of a cgroup, from `memory.stat` (Linux
//! Documentation/admin-guide/cgroup-v2.rst): `kernel`, which exists since Linux 5.18, minus page tables. It includes
//! what KVM allocates for a guest (`GFP_KERNEL_ACCOUNT`). The root cgroup has no such count.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use procfs::process::Process;
use procfs::{CpuInfo, Current};
use vm_memory::VolatileMemory;
use vm_memory::mmap::MmapRegion;

/// How many consecutive equal readings make a count settled.
const EQUAL: u32 = 3;
const PAUSE: Duration = Duration::from_millis(4);
/// After this many readings the last one is used: other processes in the cgroup may never let it settle.
const MOST_READINGS: u32 = 50;

const PAGE: usize = 4096;
/// The pages that a CPU may have counted before the kernel adds them to the cgroup's count (`MEMCG_CHARGE_BATCH`).
const BATCH: usize = 64;

/// A cgroup that contains this process, and whose memory the kernel counts.
#[derive(Debug)]
pub(crate) struct CountedGroup {
    stat: PathBuf,
}

impl CountedGroup {
    /// The cgroup of this process. `None` for the root, or if the kernel does not count or show its own memory there.
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
        // The root also has a memory.stat, but it does not count kernel memory.
        if !folder.join("memory.current").exists() {
            return None;
        }
        let stat = folder.join("memory.stat");
        let group = Self { stat };
        group.read().map(|_| group)
    }

    /// The bytes that the kernel keeps, after its delayed frees and delayed counting.
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
        // Page tables are counted as memory of the processes.
        Some(field("kernel")?.saturating_sub(field("pagetables")?))
    }
}

/// Makes the kernel add up its counts. They lag by up to a batch of pages per CPU, and are added up after larger
/// changes (Linux `memcg_vmstats_needs_flush()`). So this charges twice that number of pages, and uncharges them again.
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
