//! The error of file operations, which all parts of the lab have.

use std::io;
use std::path::PathBuf;

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// The error of an operation, a verb, on a file, a folder or a program.
    pub(crate) fn of(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self {
            action,
            path,
            source,
        }
    }

    /// Whether the file system is read-only, or only others may write.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
        )
    }

    /// Whether the file system, a quota or a limit of the process has no room.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }
}
