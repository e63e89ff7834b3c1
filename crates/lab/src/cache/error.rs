//! Why the cache cannot be used.

use std::io;
use std::path::PathBuf;

use super::Size;

/// What went wrong in the cache folder.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No folder to put it in.
    #[error("neither XDG_CACHE_HOME nor HOME is set, so the lab has no cache folder")]
    NoHome,
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Too little room for what is to come.
    #[error("{needed} needed in {}, {available} free: make room or set XDG_CACHE_HOME", path.display())]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// What the preparation takes at its peak.
        needed: Size,
        /// What the file system has.
        available: Size,
    },
    /// A file is not what the manifest says.
    #[error("cache entry {} is damaged: {file} {how}", entry.display())]
    Damaged {
        /// The entry's folder.
        entry: PathBuf,
        /// The file in it.
        file: String,
        /// What is wrong with it.
        how: &'static str,
    },
    /// The manifest cannot be read.
    #[error("cache entry {} has an unreadable manifest", entry.display())]
    Manifest {
        /// The entry's folder.
        entry: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Another process is using it.
    #[error("{} is in use by another `vmbell lab`", path.display())]
    InUse {
        /// The root.
        path: PathBuf,
    },
}

impl CacheError {
    /// For `map_err` on file operations.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Whether making the entry anew would mend it.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Manifest { .. })
    }
}
