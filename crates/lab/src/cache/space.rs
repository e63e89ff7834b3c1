//! The check for free space on the file system, before it is filled.

use std::path::Path;

use super::{CacheError, Size};

/// Fails unless the file system of `folder` has `needed` bytes for an ordinary user.
pub fn require_space(folder: &Path, needed: Size) -> Result<(), CacheError> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|errno| CacheError::io("ask for free space in", folder)(errno.into()))?;
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
