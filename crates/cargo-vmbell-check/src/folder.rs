//! The target folder: one for each compiler, set of flags and version of this program.
//!
//! cargo does not know what its wrapper does, and would reuse what a different wrapper has compiled. With code that is
//! not hooked, a search would end too early and report no failure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::toolchain::Toolchain;
use crate::{compiler, passthrough};

/// `target/vmbell-check/<identity>`.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Sixteen hexadecimal digits.
    pub(crate) identity: String,
}

impl Folder {
    /// The folder in `base`, the workspace's own target folder, for this compiler and these flags.
    pub(crate) fn create(
        base: &Path,
        toolchain: &Toolchain,
        target: &str,
        flags: &[&str],
    ) -> Result<Self, Error> {
        let mut hasher = DefaultHasher::new();
        (&toolchain.verbose, target, flags).hash(&mut hasher);
        (
            env!("CARGO_PKG_VERSION"),
            compiler::SOURCE,
            passthrough::SOURCE,
        )
            .hash(&mut hasher);
        let identity = format!("{:016x}", hasher.finish());
        let path = parent(base).join(&identity);
        std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        Ok(Self { path, identity })
    }

    /// Counts the folders of other compilers, flags and versions, which are next to this folder.
    pub(crate) fn others(&self) -> usize {
        let siblings = self.path.parent().and_then(|parent| parent.read_dir().ok());
        siblings
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name() != *self.identity)
            .count()
    }
}

/// Removes all folders in `base`. Returns the folder that held them, if there was one.
pub(crate) fn remove_all(base: &Path) -> Result<Option<PathBuf>, Error> {
    let parent = parent(base);
    match std::fs::remove_dir_all(&parent) {
        Ok(()) => Ok(Some(parent)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("remove", parent)(error)),
    }
}

fn parent(base: &Path) -> PathBuf {
    base.join("vmbell-check")
}
