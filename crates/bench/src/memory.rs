//! The memory of processes, from `/proc/PID/smaps_rollup` and `/proc/PID/status` (proc(5)).
#![allow(
    unsafe_code,
    reason = "malloc_trim has no safe form in a crate that is used here"
)]

use procfs::process::Process;
use procfs::{ProcError, ProcResult};

/// The memory of this process and of the processes `others`, in bytes: proportional set size (Pss) plus page tables.
/// `None` if the kernel does not show it to this user or at all, or if the allocator cannot return free memory, which
/// would hide later allocations.
///
/// # Errors
///
/// One of `others` has ended.
pub(crate) fn in_use(others: &[u32]) -> ProcResult<Option<u64>> {
    if !give_back() {
        return Ok(None);
    }
    let mut sum = match of(&Process::myself()?) {
        // This kernel has no CONFIG_PROC_PAGE_MONITOR.
        Err(ProcError::NotFound(_)) => return Ok(None),
        own => own?,
    };
    for pid in others {
        let pid = i32::try_from(*pid).map_err(|_| ProcError::NotFound(None))?;
        sum += match of(&Process::new(pid)?) {
            // Only root may see a sandbox's pages.
            Err(ProcError::PermissionDenied(_)) => return Ok(None),
            other => other?,
        };
    }
    Ok(Some(sum))
}

/// Makes the allocator return its free pages to the kernel; false if it cannot.
fn give_back() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointer, and holds the allocator's locks while it works.
    unsafe {
        // The result only says whether there were such pages.
        libc::malloc_trim(0);
    }
    cfg!(target_env = "gnu")
}

fn of(process: &Process) -> ProcResult<u64> {
    const KIB: u64 = 1024;
    let maps = process.smaps_rollup()?.memory_map_rollup;
    let pages: u64 = maps
        .iter()
        .filter_map(|map| map.extension.map.get("Pss"))
        .sum();
    let tables = process.status()?.vmpte.unwrap_or_default();
    Ok(pages + tables * KIB)
}

#[cfg(test)]
#[path = "memory_test.rs"]
mod tests;
