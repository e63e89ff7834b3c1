//! Our own sources that the lab builds for L1's kernel: modules and tests of KVM. They are embedded in this program.

use std::fs;
use std::path::Path;

use crate::cache::hash_bytes;
use crate::error::{LabError, cannot};

/// Names and texts of source files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnSources(pub(crate) &'static [(&'static str, &'static str)]);

/// Makes the [`OwnSources`] of the files with these names in a folder of this crate.
macro_rules! own_sources {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        $crate::own_sources::OwnSources(&[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name)),
        )),+])
    };
}
pub(crate) use own_sources;

impl OwnSources {
    /// Returns the SHA-256 of the names and texts.
    pub(crate) fn digest(self) -> String {
        hash_bytes(format!("{:?}", self.0).as_bytes())
    }

    /// Writes the files to a folder, which is created if necessary.
    pub(crate) fn write(self, folder: &Path) -> Result<(), LabError> {
        fs::create_dir_all(folder).map_err(cannot("make", folder))?;
        for (name, text) in self.0 {
            let path = folder.join(name);
            fs::write(&path, text).map_err(cannot("write", path))?;
        }
        Ok(())
    }
}
