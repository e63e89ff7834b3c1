//! The list of an entry's files with their SHA-256 digests.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{LabError, LabFailure, cannot, failed};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The files of an entry, and the packages that they came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryManifest {
    /// The entry's title for people: `Linux 6.12.117+deb12-cloud-amd64`.
    pub title: String,
    /// The packages that the entry was made from, as the package index names them.
    pub packages: Vec<SourcePackage>,
    /// Every regular file, sorted by path.
    pub files: Vec<ManifestFile>,
}

/// One downloaded package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePackage {
    /// The package's file name, which includes the version.
    pub file: String,
    /// The file's size in bytes.
    pub size: u64,
    /// Digest of the file, the same as in the signed index.
    pub sha256: Digest,
}

/// One file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path inside the entry.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since the epoch, to notice a change without reading the file.
    pub modified: i128,
    /// Digest of the content.
    pub sha256: Digest,
}

impl EntryManifest {
    /// Records every regular file below `root`.
    pub fn scan(
        title: String,
        packages: Vec<SourcePackage>,
        root: &Path,
    ) -> Result<Self, LabError> {
        let mut files = Vec::new();
        scan(root, root, &mut files)?;
        files.sort_by(|a: &ManifestFile, b| a.path.cmp(&b.path));
        Ok(Self {
            title,
            packages,
            files,
        })
    }

    /// Returns the sum of the files' sizes in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

impl ManifestFile {
    /// Compares size and modification time, and also the content if the time differs.
    pub fn check(&self, entry: &Path) -> Result<(), LabError> {
        let damaged = |how| damaged(entry, &self.path, how);
        let metadata =
            fs::symlink_metadata(entry.join(&self.path)).map_err(|_| damaged("is missing"))?;
        if metadata.len() != self.size {
            return Err(damaged("has another size"));
        }
        if modified(&metadata) != self.modified {
            // The file was touched, but its content may still be the same.
            return self.check_content(entry);
        }
        Ok(())
    }

    /// Reads the content and compares its digest.
    pub fn check_content(&self, entry: &Path) -> Result<(), LabError> {
        let path = entry.join(&self.path);
        let digest = hash_file(&path).map_err(cannot("read", path))?;
        if digest != self.sha256 {
            return Err(damaged(entry, &self.path, "has another SHA-256"));
        }
        Ok(())
    }
}

fn scan(root: &Path, folder: &Path, files: &mut Vec<ManifestFile>) -> Result<(), LabError> {
    for item in fs::read_dir(folder).map_err(cannot("list", folder))? {
        let path = item.map_err(cannot("list", folder))?.path();
        let metadata = fs::symlink_metadata(&path).map_err(cannot("inspect", &path))?;
        if metadata.is_dir() {
            scan(root, &path, files)?;
        } else if metadata.is_file() {
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let sha256 = hash_file(&path).map_err(cannot("read", &path))?;
            files.push(ManifestFile {
                path: name,
                size: metadata.len(),
                modified: modified(&metadata),
                sha256,
            });
        }
    }
    Ok(())
}

fn modified(metadata: &fs::Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// A SHA-256 in lower-case hexadecimal, as package indexes and manifests write it.
pub type Digest = String;

/// Hashes bytes in memory.
pub fn hash_bytes(bytes: &[u8]) -> Digest {
    hex(&Sha256::digest(bytes))
}

/// Hashes a file, read in pieces.
pub fn hash_file(path: &Path) -> io::Result<Digest> {
    hash_open(&File::open(path)?)
}

/// Hashes an open file, starting at its current position.
pub(crate) fn hash_open(mut file: &File) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&piece[..length]);
    }
}

fn hex(bytes: &[u8]) -> Digest {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the error of a file that does not match the manifest of its entry.
pub(crate) fn damaged(entry: &Path, file: &str, how: &str) -> LabError {
    let entry = entry.display();
    failed!("cache entry {entry} is damaged: {file} {how}").of(LabFailure::Damaged)
}

/// Makes the error of an unreadable manifest.
pub(crate) fn bad_manifest(entry: &Path) -> impl FnOnce(serde_json::Error) -> LabError {
    move |error| {
        failed!("cache entry {} has an unreadable manifest", entry.display())
            .of(LabFailure::Damaged)
            .because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_bytes(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        assert_eq!(hash_file(file.path()).unwrap(), abc);
    }
}
