//! Our sources that the lab builds for L1's kernel: modules and tests of KVM. They are embedded in this program.

use std::fs;
use std::path::Path;

use crate::cache::hash_bytes;
use crate::error::{LabError, cannot};

/// The names of files, and their texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnSources(pub(crate) &'static [(&'static str, &'static str)]);

/// The [`OwnSources`] with these names in a folder of this crate.
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
    /// Their SHA-256.
    pub(crate) fn digest(self) -> String {
        hash_bytes(format!("{:?}", self.0).as_bytes())
    }

    /// Writes them to a folder, which is made if it is not there.
    pub(crate) fn write(self, folder: &Path) -> Result<(), LabError> {
        fs::create_dir_all(folder).map_err(cannot("make", folder))?;
        for (name, text) in self.0 {
            let path = folder.join(name);
            fs::write(&path, text).map_err(cannot("write", path))?;
        }
        Ok(())
    }
}
