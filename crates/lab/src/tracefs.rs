//! Files of tracefs (Linux `Documentation/trace/ftrace.rst`): where tracefs is mounted, how to write to its files, and
//! how many events a trace buffer has lost.
//!
//! Used by L1's init in its own Linux, and by the command on any host with KVM, each from the thread that records.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Where current and older kernels mount tracefs.
pub const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Events that were overwritten or did not fit, under their names in a CPU's statistics.
const LOSSES: [&str; 3] = ["overrun", "commit overrun", "dropped events"];

/// Writes to an existing file of the kernel. Truncating the file would remove the triggers in it.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Returns how many events the trace buffer in this folder has lost on all CPUs.
pub fn lost(buffer: &Path) -> io::Result<u64> {
    let mut lost = 0;
    for cpu in fs::read_dir(buffer.join("per_cpu"))? {
        lost += lost_in(&fs::read_to_string(cpu?.path().join("stats"))?)?;
    }
    Ok(lost)
}

/// Sums the lost events of a CPU's statistics, with lines like `overrun: 0`. An unreadable count is an error, not 0.
fn lost_in(stats: &str) -> io::Result<u64> {
    let counts = stats.lines().filter_map(|line| line.split_once(": "));
    let losses = counts.filter(|(name, _)| LOSSES.contains(name));
    let losses: Result<Vec<u64>, _> = losses.map(|(_, count)| count.trim().parse()).collect();
    match losses {
        Ok(losses) if losses.len() == LOSSES.len() => Ok(losses.iter().sum()),
        _ => Err(io::Error::other(
            "the kernel's statistics do not say how many events were lost",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "entries: 3\noverrun: 0\ncommit overrun: 0\nbytes: 120\ndropped events: 0\nread events: 7\n";

    #[test]
    fn losses_of_all_cpus_and_kinds_are_added() {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, overrun, commit, dropped) in [(0, 3, 2, 0), (1, 0, 0, 4)] {
            let stats = STATS
                .replace("\noverrun: 0", &format!("\noverrun: {overrun}"))
                .replace("commit overrun: 0", &format!("commit overrun: {commit}"))
                .replace("dropped events: 0", &format!("dropped events: {dropped}"));
            let cpu = folder.path().join(format!("per_cpu/cpu{cpu}"));
            fs::create_dir_all(&cpu).unwrap();
            fs::write(cpu.join("stats"), stats).unwrap();
        }
        assert_eq!(lost(folder.path()).unwrap(), 9);
    }

    #[test]
    fn every_kind_of_loss_is_noticed_alone() {
        assert_eq!(lost_in(STATS).unwrap(), 0);
        for name in LOSSES {
            let stats = STATS.replace(&format!("\n{name}: 0"), &format!("\n{name}: 12"));
            assert_eq!(lost_in(&stats).unwrap(), 12, "{name}");
        }
    }

    #[test]
    fn statistics_that_cannot_be_read_are_an_error_and_not_zero() {
        for name in LOSSES {
            for other in ["", &format!("\n{name}: many")] {
                let stats = STATS.replace(&format!("\n{name}: 0"), other);
                assert!(lost_in(&stats).is_err(), "{stats}");
            }
        }
    }

    #[test]
    fn a_file_that_the_kernel_has_not_made_is_not_made_and_one_that_is_there_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trigger");
        assert!(write(&path, "hist").is_err());
        assert!(!path.exists());
        fs::write(&path, "0123456789").unwrap();
        write(&path, "hist").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "hist456789");
    }
}
