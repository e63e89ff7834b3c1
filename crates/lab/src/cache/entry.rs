//! A cache entry: made in its own folder, renamed into place, checked at each use.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::{bad_manifest, damaged};
use super::{EntryManifest, SourcePackage};
use crate::error::{LabError, cannot};
use crate::unfinished;

const MANIFEST: &str = "manifest.json";
const FILES: &str = "files";
/// The prefix of the folder names of unfinished entries.
pub(super) const DRAFT: &str = "draft-";

/// A finished entry.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    folder: PathBuf,
    manifest: EntryManifest,
}

impl CacheEntry {
    /// Opens the entry in `folder` and compares every file's size and time with the manifest; `None` if there is no
    /// such entry.
    pub fn open(folder: PathBuf) -> Result<Option<Self>, LabError> {
        if !folder.exists() {
            return Ok(None);
        }
        let path = folder.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(&folder, MANIFEST, "is missing"));
            }
            Err(source) => return Err(cannot("read", path)(source)),
        };
        let manifest: EntryManifest =
            serde_json::from_slice(&text).map_err(bad_manifest(&folder))?;
        let entry = Self { folder, manifest };
        let root = entry.path("");
        entry
            .manifest
            .files
            .iter()
            .try_for_each(|file| file.check(&root))?;
        Ok(Some(entry))
    }

    /// Reads every file and compares its digest.
    pub fn verify(&self) -> Result<(), LabError> {
        let root = self.path("");
        self.manifest
            .files
            .iter()
            .try_for_each(|file| file.check_content(&root))
    }

    /// Returns the path of a file in the entry.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.join(FILES).join(relative)
    }

    /// The entry's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The list of the entry's files.
    pub fn manifest(&self) -> &EntryManifest {
        &self.manifest
    }
}

/// An unfinished entry: its folder is removed unless it is committed.
#[derive(Debug)]
pub struct EntryDraft {
    scratch: tempfile::TempDir,
    folder: PathBuf,
}

impl EntryDraft {
    /// Starts an entry that [`commit`](Self::commit) renames to `folder`.
    pub(super) fn new(root: &Path, folder: PathBuf) -> Result<Self, LabError> {
        let scratch = tempfile::Builder::new()
            .prefix(DRAFT)
            .tempdir_in(root)
            .map_err(cannot("make a folder in", root))?;
        unfinished::folder(scratch.path().to_path_buf());
        let files = scratch.path().join(FILES);
        fs::create_dir(&files).map_err(cannot("make", files))?;
        let draft = Self { scratch, folder };
        let aside = draft.scratch();
        fs::create_dir(&aside).map_err(cannot("make", aside))?;
        Ok(draft)
    }

    /// Returns the path of a file in the unfinished entry.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join(FILES).join(relative)
    }

    /// Returns a folder next to the entry's files. It is removed when the entry is committed.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.path().join("scratch")
    }

    /// Writes the manifest and renames the folder into place. If an entry is already there, it is removed.
    pub fn commit(
        self,
        title: String,
        packages: Vec<SourcePackage>,
    ) -> Result<CacheEntry, LabError> {
        let aside = self.scratch();
        fs::remove_dir_all(&aside).map_err(cannot("remove", aside))?;
        let manifest = EntryManifest::scan(title, packages, &self.path(""))?;
        let path = self.scratch.path().join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest).map_err(cannot("write", &path))?;
        fs::write(&path, text).map_err(cannot("write", path))?;
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(cannot("remove", &self.folder))?;
        }
        // From here on the scratch folder is no longer removed automatically.
        let scratch = self.scratch.keep();
        fs::rename(&scratch, &self.folder).map_err(cannot("rename into place", &self.folder))?;
        Ok(CacheEntry {
            folder: self.folder,
            manifest,
        })
    }
}
