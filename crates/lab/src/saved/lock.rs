//! The lock of the process that makes a state, or that cleans up after a maker was killed.

use crate::error::{LabError, cannot};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock file that this process holds. It is removed when the lock is released.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock. If another process holds it, calls `waiting` and then waits.
    pub(super) fn wait(path: &Path, waiting: impl FnOnce()) -> Result<Self, LabError> {
        if let Some(lock) = Self::now(path)? {
            return Ok(lock);
        }
        waiting();
        loop {
            let file = open(path)?;
            file.lock().map_err(cannot("lock", path))?;
            if let Some(lock) = Self::in_place(file, path) {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock; `None` if another process holds it.
    pub(super) fn now(path: &Path) -> Result<Option<Self>, LabError> {
        loop {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(cannot("lock", path)(error)),
            }
            if let Some(lock) = Self::in_place(file, path) {
                return Ok(Some(lock));
            }
        }
    }

    /// Returns the lock, unless its previous holder has removed the file: then other processes would open a new file.
    fn in_place(file: File, path: &Path) -> Option<Self> {
        is_at(&file, path).then(|| Self {
            file,
            path: path.to_path_buf(),
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // A child process that is being started has a copy of the descriptor for a moment, so closing is not enough.
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> Result<File, LabError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(cannot("open", path))
}

/// Returns whether `path` still refers to this open file or folder.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: io::Result<fs::Metadata>| metadata.map(|it| (it.dev(), it.ino())).ok();
    let own = id(file.metadata());
    own.is_some() && own == id(fs::symlink_metadata(path))
}
