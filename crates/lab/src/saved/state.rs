//! A saved state in use. It is checked completely when it is opened.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::StateKey;
use super::lock::is_at;
use super::seal::Seal;
use crate::cache::{bad_manifest, damaged};
use crate::error::{LabError, LabFailure, cannot};

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const RAM: &str = "ram";
pub(super) const STATE: &str = "state";
/// The prefix of folders that are being removed.
pub(super) const REMOVED: &str = "removed-";

/// The description of a saved state, with the seals of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateManifest {
    /// The key: what the machine was made from.
    pub key: StateKey,
    /// When the state was made.
    pub made: SystemTime,
    /// The machine's memory.
    pub ram: Seal,
    /// QEMU's state of the devices.
    pub state: Seal,
}

/// A saved state in use. It is not removed to save space. If it is removed because it is damaged, its open files can
/// still be read.
#[derive(Debug)]
pub struct Saved {
    path: PathBuf,
    folder: File,
    manifest: File,
    ram: File,
    state: File,
}

impl Saved {
    /// Opens the state in the folder `path`, if there is one. A damaged state is removed before the error is returned.
    pub(super) fn open(path: &Path, key: &StateKey) -> Result<Option<Self>, LabError> {
        loop {
            let Some(folder) = open_folder(path)? else {
                return Ok(None);
            };
            let opened = Self::check(path, &folder, key);
            if !is_at(&folder, path) {
                // Another process has removed the state in the meantime.
                continue;
            }
            if opened
                .as_ref()
                .is_err_and(|error| error.kind() == LabFailure::Damaged)
            {
                remove(&folder, path)?;
            }
            let (manifest, ram, state) = opened?;
            manifest
                .set_modified(SystemTime::now())
                .map_err(cannot("set the time of", path.join(MANIFEST)))?;
            return Ok(Some(Self {
                path: path.to_path_buf(),
                folder,
                manifest,
                ram,
                state,
            }));
        }
    }

    /// Locks the manifest, then compares the files with it.
    fn check(path: &Path, folder: &File, key: &StateKey) -> Result<(File, File, File), LabError> {
        let missing = || damaged(path, MANIFEST, "is missing");
        let mut file = open_manifest(path, folder)?.ok_or_else(missing)?;
        file.lock_shared()
            .map_err(cannot("lock", path.join(MANIFEST)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(cannot("read", path.join(MANIFEST)))?;
        let manifest: StateManifest = serde_json::from_slice(&text).map_err(bad_manifest(path))?;
        if manifest.key.parts != key.parts {
            return Err(damaged(path, MANIFEST, "is that of another state"));
        }
        let ram = check_file(path, folder, RAM, &manifest.ram)?;
        let state = check_file(path, folder, STATE, &manifest.state)?;
        Ok((file, ram, state))
    }

    /// Seals the files in a folder that its maker has filled, writes the manifest, and renames the folder to `path`.
    pub(super) fn commit(draft: &Path, path: &Path, key: &StateKey) -> Result<Self, LabError> {
        let open = |name| -> Result<(File, Seal), LabError> {
            let path = draft.join(name);
            let file = File::open(&path).map_err(cannot("open", &path))?;
            let seal = Seal::of(&file).map_err(cannot("read", path))?;
            Ok((file, seal))
        };
        let folder = File::open(draft).map_err(cannot("open", draft))?;
        let (ram, ram_seal) = open(RAM)?;
        let (state, state_seal) = open(STATE)?;
        let manifest = StateManifest {
            key: key.clone(),
            made: SystemTime::now(),
            ram: ram_seal,
            state: state_seal,
        };
        let text =
            serde_json::to_vec_pretty(&manifest).map_err(cannot("write", draft.join(MANIFEST)))?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(draft.join(MANIFEST))
            .map_err(cannot("make", draft.join(MANIFEST)))?;
        // Locked before the folder gets its name, so that no process removes it in between.
        file.write_all(&text)
            .and_then(|()| file.set_modified(manifest.made))
            .and_then(|()| file.lock_shared())
            .map_err(cannot("write", draft.join(MANIFEST)))?;
        fs::rename(draft, path).map_err(cannot("rename into place", path))?;
        Ok(Self {
            path: path.to_path_buf(),
            folder,
            manifest: file,
            ram,
            state,
        })
    }

    /// The machine's memory, open for reading from its start. This is the same open file that was checked.
    pub fn ram(&self) -> &File {
        &self.ram
    }

    /// QEMU's state of the devices, open for reading from its start.
    pub fn state(&self) -> &File {
        &self.state
    }

    /// Removes this state after a machine that began from it panicked or hung. Other processes can continue to use it.
    /// If it has been replaced in the meantime, the new state is kept.
    pub fn discard(self) -> Result<(), LabError> {
        if is_at(&self.folder, &self.path) {
            remove(&self.folder, &self.path)?;
        }
        Ok(())
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        // A child process that is being started has a copy of the descriptor for a moment, so closing is not enough.
        let _ = self.manifest.unlock();
    }
}

/// Removes a state that no process uses. Returns `false` if a process uses it.
pub(super) fn remove_unused(path: &Path) -> Result<bool, LabError> {
    let Some(folder) = open_folder(path)? else {
        return Ok(true);
    };
    let manifest = open_manifest(path, &folder)?;
    match manifest.as_ref().map(File::try_lock) {
        Some(Err(fs::TryLockError::WouldBlock)) => return Ok(false),
        Some(Err(fs::TryLockError::Error(error))) => {
            return Err(cannot("lock", path.join(MANIFEST))(error));
        }
        Some(Ok(())) | None => {}
    }
    if is_at(&folder, path) {
        remove(&folder, path)?;
    }
    Ok(true)
}

/// Renames a folder first, so that no process sees half of a state, then removes it.
fn remove(folder: &File, path: &Path) -> Result<(), LabError> {
    let metadata = folder.metadata().map_err(cannot("inspect", path))?;
    let aside = path.with_file_name(format!("{REMOVED}{}", metadata.ino()));
    match fs::rename(path, &aside) {
        Ok(()) => remove_folder(&aside),
        // Another process was faster.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(cannot("remove", path)(error)),
    }
}

/// Removes a folder that another process may also be removing.
pub(super) fn remove_folder(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot("remove", path)(error)),
        _ => Ok(()),
    }
}

fn open_folder(path: &Path) -> Result<Option<File>, LabError> {
    match File::open(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("open", path)(error)),
    }
}

/// Opens the manifest for writing: on network file systems, an exclusive lock requires that. A state that is not
/// writable is useless anyway, because QEMU opens the memory for writing although it maps it privately.
fn open_manifest(path: &Path, folder: &File) -> Result<Option<File>, LabError> {
    open_in(path, folder, MANIFEST, OFlags::RDWR)
}

/// Opens a file of an open folder; `None` if it is missing.
fn open_in(
    path: &Path,
    folder: &File,
    name: &str,
    flags: OFlags,
) -> Result<Option<File>, LabError> {
    match openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(cannot("open", path.join(name))(io::Error::from(errno))),
    }
}

fn check_file(
    path: &Path,
    folder: &File,
    name: &'static str,
    seal: &Seal,
) -> Result<File, LabError> {
    let damaged = |how| damaged(path, name, how);
    let file = open_in(path, folder, name, OFlags::RDONLY)?.ok_or_else(|| damaged("is missing"))?;
    let metadata = file
        .metadata()
        .map_err(cannot("inspect", path.join(name)))?;
    if !metadata.is_file() {
        return Err(damaged("is not a file"));
    }
    if metadata.len() != seal.size {
        return Err(damaged("has another size"));
    }
    match Seal::of(&file) {
        Ok(found) if found == *seal => Ok(file),
        Ok(_) => Err(damaged("has another checksum")),
        // The disk is damaged, or the file was truncated in the meantime.
        Err(error)
            if error.raw_os_error() == Some(Errno::IO.raw_os_error())
                || error.kind() == ErrorKind::UnexpectedEof =>
        {
            Err(damaged("cannot be read"))
        }
        Err(error) => Err(cannot("read", path.join(name))(error)),
    }
}
