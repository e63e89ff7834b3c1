//! Sizes in bytes, and the check for free space on the file system before it is filled.

use std::fmt;
use std::path::Path;

use super::CacheError;
use crate::FileError;

/// Bytes, in decimal units as package tools print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
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

/// Fails unless the file system of `folder` has `needed` bytes for an ordinary user.
pub fn require_space(folder: &Path, needed: Size) -> Result<(), CacheError> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|errno| FileError::of("ask for free space in", folder)(errno.into()))?;
    let available = Size(stat.f_bavail.saturating_mul(stat.f_frsize));
    if available < needed {
        return Err(CacheError::NoSpace {
            path: folder.to_path_buf(),
            needed,
            available,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_package_tools_print_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (62_048_260, "62.0 MB"),
            (76_000_000_000, "76.0 GB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(Size(u64::MAX).to_string(), "18446.7 PB");
    }

    #[test]
    fn more_than_the_file_system_has_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        require_space(folder.path(), Size(1)).unwrap();
        let error = require_space(folder.path(), Size(u64::MAX)).unwrap_err();
        assert!(
            error.to_string().starts_with("18446.7 PB needed in "),
            "{error}"
        );
    }
}
