//! Sizes in bytes, and what the cache needs of its file system: free space, and permission to run programs.

use std::fmt;
use std::io;
use std::path::Path;

use crate::error::{LabError, cannot, failed};
use rustix::fs::StatVfsMountFlags;

/// A number of bytes, printed in decimal units like package tools do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSize(pub u64);

impl fmt::Display for DiskSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 1_u64;
        let mut names = ["B", "kB", "MB", "GB", "TB", "PB"].iter().peekable();
        while let Some(name) = names.next() {
            if self.0 < unit.saturating_mul(1000) || names.peek().is_none() {
                let tenths = (u128::from(self.0) * 10 / u128::from(unit)) % 10;
                return match (unit, self.0 / unit) {
                    (1, whole) => write!(f, "{whole} {name}"),
                    (_, whole) => write!(f, "{whole}.{tenths} {name}"),
                };
            }
            unit *= 1000;
        }
        Ok(())
    }
}

/// Returns an error unless the file system of `folder` has `needed` bytes for an ordinary user.
pub fn require_space(folder: &Path, needed: DiskSize) -> Result<(), LabError> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|errno| cannot("ask for free space in", folder)(io::Error::from(errno)))?;
    let available = DiskSize(stat.f_bavail.saturating_mul(stat.f_frsize));
    if available < needed {
        let folder = folder.display();
        return Err(failed!("{needed} needed in {folder}, {available} free")
            .hint("make room or set XDG_CACHE_HOME"));
    }
    Ok(())
}

/// Returns an error if programs in `folder` cannot run because its file system is mounted with `noexec`.
pub fn require_programs(folder: &Path) -> Result<(), LabError> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|errno| cannot("ask for the mount of", folder)(io::Error::from(errno)))?;
    match stat.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        true => Err(failed!(
            "{} is on a file system mounted noexec, and the lab runs programs from there",
            folder.display()
        )
        .hint("set XDG_CACHE_HOME to a folder on another file system")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_programs_is_told_by_its_mount() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let path = Path::new(fields[1]);
            // A later mount may hide this one.
            let hides = |other: &str| other.split(' ').nth(1) == Some(fields[1]);
            if mounts.lines().filter(|other| hides(other)).count() > 1 || !path.is_dir() {
                continue;
            }
            let is_noexec = fields[3].split(',').any(|option| option == "noexec");
            match require_programs(path) {
                Ok(()) => assert!(!is_noexec, "{line}"),
                Err(error) => {
                    assert!(is_noexec, "{line}: {error}");
                    assert!(error.to_string().contains("set XDG_CACHE_HOME"), "{error}");
                }
            }
        }
    }

    #[test]
    fn sizes_read_as_package_tools_print_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (62_048_260, "62.0 MB"),
            (76_000_000_000, "76.0 GB"),
        ] {
            assert_eq!(DiskSize(bytes).to_string(), text);
        }
        assert_eq!(DiskSize(u64::MAX).to_string(), "18446.7 PB");
    }

    #[test]
    fn more_than_the_file_system_has_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        require_space(folder.path(), DiskSize(1)).unwrap();
        let error = require_space(folder.path(), DiskSize(u64::MAX)).unwrap_err();
        assert!(
            error.to_string().starts_with("18446.7 PB needed in "),
            "{error}"
        );
    }
}
