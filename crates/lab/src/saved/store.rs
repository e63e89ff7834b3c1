//! The folder with all saved states: makes, lists and removes them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lock::Lock;
use super::state::{self, MANIFEST, RAM, REMOVED, STATE, Saved, StateManifest};
use super::{StateKey, digests};
use crate::cache::{self, Digest, DiskSize, require_space};
use crate::error::{LabError, LabFailure, cannot};
use crate::unfinished;

/// The prefix of folders that are being filled. The key's name follows.
const DRAFT: &str = "draft-";
/// The extension of the lock files.
const LOCK: &str = "lock";
const DIGESTS: &str = "digests";

/// The cache of saved states.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    limit: DiskSize,
}

/// A folder for the files of a state that is being made. It is removed unless that succeeds.
#[derive(Debug)]
pub struct StateDraft {
    scratch: tempfile::TempDir,
}

/// A state in the list.
#[derive(Debug)]
pub struct ListedState {
    /// The name of the state's folder, see [`StateKey::name`].
    pub name: String,
    /// The space allocated on disk.
    pub size: DiskSize,
    /// When the state was last used, or made.
    pub used: SystemTime,
    /// The state's description; `None` if the manifest is unreadable or belongs to a different state.
    pub manifest: Option<StateManifest>,
}

/// The result of [`Store::remove_all`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The space freed on disk.
    pub freed: DiskSize,
    /// The names of the states that were kept because a process uses or makes them.
    pub in_use: Vec<String>,
}

impl Store {
    /// The user's states: `$XDG_CACHE_HOME/vmbell/states`, or `~/.cache/vmbell/states`.
    pub fn user(limit: DiskSize) -> Result<Self, LabError> {
        Ok(Self::at(cache::user_folder("states")?, limit))
    }

    /// Uses states in this folder. If all states exceed `limit` on disk, states that are not in use are removed.
    pub fn at(root: PathBuf, limit: DiskSize) -> Self {
        Self { root, limit }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the SHA-256 of a file, for a key. It is remembered until the file changes.
    pub fn digest(&self, file: &Path) -> Result<Digest, LabError> {
        self.make_root()?;
        digests::digest(&self.root.join(DIGESTS), file)
    }

    /// Opens and checks the state of this key; `None` if it does not exist. A damaged state is removed before the error
    /// is returned, see [`LabFailure::Damaged`], so that the caller can make it again.
    pub fn open(&self, key: &StateKey) -> Result<Option<Saved>, LabError> {
        Saved::open(&self.root.join(key.name()), key)
    }

    /// Makes the state of this key with `make`, or returns the state that another process has made meanwhile. If
    /// another process is making it, calls `waiting` and then waits. Fails if the disk space `needed` is not available.
    ///
    /// `make` writes [`StateDraft::ram`] and [`StateDraft::state`]. All writers must have ended when it returns. If the
    /// states then exceed the limit, the least recently used states are removed.
    pub fn make(
        &self,
        key: &StateKey,
        needed: DiskSize,
        waiting: impl FnOnce(),
        make: impl FnOnce(&StateDraft) -> Result<(), LabError>,
    ) -> Result<Saved, LabError> {
        self.make_root()?;
        let name = key.name();
        let lock = Lock::wait(&self.lock_path(&name), waiting)?;
        match self.open(key) {
            Ok(None) => {}
            Ok(Some(saved)) => return Ok(saved),
            Err(error) if error.kind() == LabFailure::Damaged => {}
            Err(error) => return Err(error),
        }
        self.sweep(Some(&name))?;
        require_space(&self.root, needed)?;
        let draft = StateDraft::new(&self.root, &name)?;
        make(&draft)?;
        let saved = draft.commit(&self.root.join(&name), key)?;
        drop(lock);
        self.evict()?;
        Ok(saved)
    }

    /// Returns all states, least recently used first.
    pub fn list(&self) -> Result<Vec<ListedState>, LabError> {
        let mut list = Vec::new();
        for name in self.names()? {
            let path = self.root.join(&name);
            if StateKey::is_name(&name) && path.is_dir() {
                let manifest = path.join(MANIFEST);
                let text = fs::read(&manifest).unwrap_or_default();
                let used = fs::metadata(manifest).or_else(|_| fs::metadata(&path));
                list.push(ListedState {
                    size: DiskSize(allocated(&path)),
                    used: used
                        .and_then(|metadata| metadata.modified())
                        .unwrap_or(SystemTime::UNIX_EPOCH),
                    manifest: serde_json::from_slice(&text)
                        .ok()
                        .filter(|manifest: &StateManifest| manifest.key.name() == name),
                    name,
                });
            }
        }
        list.sort_by_key(|listed| listed.used);
        Ok(list)
    }

    /// Removes all states except those that a process uses or makes.
    pub fn remove_all(&self) -> Result<Removed, LabError> {
        let mut removed = Removed::default();
        for listed in self.list()? {
            if state::remove_unused(&self.root.join(&listed.name))? {
                removed.freed.0 += listed.size.0;
            } else {
                removed.in_use.push(listed.name);
            }
        }
        removed.in_use.extend(self.sweep(None)?);
        let digests = self.root.join(DIGESTS);
        match fs::remove_file(&digests) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot("remove", digests)(error))
            }
            _ => Ok(removed),
        }
    }

    /// Removes the least recently used states until the rest is within the limit. States in use are kept, including the
    /// state that was just made, because its maker uses it.
    fn evict(&self) -> Result<(), LabError> {
        let list = self.list()?;
        let mut total: u64 = list.iter().map(|listed| listed.size.0).sum();
        for listed in list {
            if total <= self.limit.0 {
                break;
            }
            if state::remove_unused(&self.root.join(&listed.name))? {
                total -= listed.size.0;
            }
        }
        Ok(())
    }

    /// Removes what killed processes have left. Returns the names of the states that other processes are making. The
    /// caller must hold the lock of `own`.
    fn sweep(&self, own: Option<&str>) -> Result<Vec<String>, LabError> {
        let names = self.names()?;
        let drafts = || names.iter().filter_map(|name| Some((name, key_of(name)?)));
        let locked = names.iter().filter_map(|name| name.strip_suffix(".lock"));
        let keys: BTreeSet<&str> = drafts().map(|(_, key)| key).chain(locked).collect();
        let mut busy = Vec::new();
        for key in keys {
            let _lock = if own == Some(key) {
                None
            } else if let Some(lock) = Lock::now(&self.lock_path(key))? {
                Some(lock)
            } else {
                busy.push(key.to_owned());
                continue;
            };
            for (draft, _) in drafts().filter(|(_, of)| *of == key) {
                state::remove_folder(&self.root.join(draft))?;
            }
        }
        for name in names.iter().filter(|name| name.starts_with(REMOVED)) {
            state::remove_folder(&self.root.join(name))?;
        }
        Ok(busy)
    }

    fn names(&self) -> Result<Vec<String>, LabError> {
        cache::names(&self.root)
    }

    fn lock_path(&self, key: &str) -> PathBuf {
        self.root.join(key).with_extension(LOCK)
    }

    fn make_root(&self) -> Result<(), LabError> {
        fs::create_dir_all(&self.root).map_err(cannot("make", &self.root))?;
        Ok(())
    }
}

impl StateDraft {
    fn new(root: &Path, key: &str) -> Result<Self, LabError> {
        let scratch = tempfile::Builder::new()
            .prefix(&format!("{DRAFT}{key}-"))
            .tempdir_in(root)
            .map_err(cannot("make a folder in", root))?;
        unfinished::folder(scratch.path().to_path_buf());
        Ok(Self { scratch })
    }

    /// The path of the file for the machine's memory.
    pub fn ram(&self) -> PathBuf {
        self.scratch.path().join(RAM)
    }

    /// The path of the file for QEMU's state of the devices.
    pub fn state(&self) -> PathBuf {
        self.scratch.path().join(STATE)
    }

    fn commit(self, path: &Path, key: &StateKey) -> Result<Saved, LabError> {
        let saved = Saved::commit(self.scratch.path(), path, key)?;
        // The folder was renamed and must be kept.
        let _ = self.scratch.keep();
        Ok(saved)
    }
}

/// Returns the key in the name of a draft's folder.
fn key_of(name: &str) -> Option<&str> {
    let (key, _) = name.strip_prefix(DRAFT)?.rsplit_once('-')?;
    Some(key)
}

/// Returns the disk space of a folder and its files, in bytes.
fn allocated(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    paths
        .chain([folder.to_path_buf()])
        .filter_map(|path| fs::symlink_metadata(path).ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}
