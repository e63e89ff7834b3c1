//! What the lab keeps between runs: unpacked packages, kernels, module archives.
//!
//! The root is `$XDG_CACHE_HOME/vmbell/lab` (or `~/.cache/vmbell/lab`). Each thing that can be
//! made again is an *entry*, a folder named by its kind and the SHA-256 of the recipe that makes
//! it. An entry is built in its own folder next to the finished ones and renamed into place
//! as the last step, so what has an entry's name is complete. A manifest inside it holds the
//! digest of every file. Two locks keep processes apart: one for those that make entries, and one
//! that every run shares and `clean` takes alone.

mod entry;
mod manifest;
mod root;
mod space;

use crate::FileError;
use std::path::PathBuf;

pub use entry::{Draft, Entry};
pub(crate) use manifest::hash_open;
pub use manifest::{Digest, Manifest, ManifestFile, SourcePackage, hash_bytes, hash_file};
pub use root::{Cache, Listed, Prepare, Use};
pub(crate) use root::{names, user_folder};
pub(crate) use space::require_programs;
pub use space::{Size, require_space};

/// An error of the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The environment names no folder for the cache.
    #[error("neither XDG_CACHE_HOME nor HOME is an absolute path, so the lab has no cache folder")]
    NoHome,
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file system has too little free space.
    #[error("{needed} needed in {}, {available} free: make room or set XDG_CACHE_HOME", path.display())]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// What the preparation needs at its peak.
        needed: Size,
        /// What is free for an ordinary user.
        available: Size,
    },
    /// The file system does not let programs run.
    #[error("{} is on a file system mounted noexec, and the lab runs programs from there: set XDG_CACHE_HOME to a folder on another file system",
            path.display())]
    NoPrograms {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not as the manifest describes it.
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
        /// The parser's error.
        source: serde_json::Error,
    },
    /// Another process is using the cache.
    #[error("{} is in use by another `vmbell lab`", path.display())]
    InUse {
        /// The cache's root folder.
        path: PathBuf,
    },
}

impl CacheError {
    /// Whether making the entry again would repair it.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Manifest { .. })
    }

    /// Whether this process cannot write the cache.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::File(error) if error.is_read_only())
    }

    /// Whether the file system is full, or has too little free space.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::File(error) => error.is_no_space(),
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
