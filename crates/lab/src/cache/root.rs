//! The cache's root folder and its locks.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::entry::DRAFT;
use super::{CacheEntry, DiskSize, EntryDraft};
use crate::error::{LabError, cannot, failed};

/// The name of the folder for downloads.
const DOWNLOADS: &str = "downloads";
/// The file that is locked while entries are made.
const PREPARE: &str = "prepare.lock";
/// The file that is locked while entries are used.
const USE: &str = "use.lock";

/// The folder that holds all entries.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// The name of an entry's folder, with the entry or the damage found in it.
pub type ListedEntry = (String, Result<CacheEntry, LabError>);

/// The lock for making entries. Only one process at a time holds it.
#[derive(Debug)]
pub struct Prepare {
    _lock: File,
}

/// The lock for using entries. Many processes can hold it, and `clean` cannot run meanwhile.
#[derive(Debug)]
pub struct Use {
    /// `None` if the cache is not writable for this process and has no lock file.
    _lock: Option<File>,
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/vmbell/lab`, or `~/.cache/vmbell/lab`.
    pub fn user() -> Result<Self, LabError> {
        Ok(Self::at(user_folder("lab")?))
    }

    /// Uses a cache in a folder of the caller's choice.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the entry with this name, whether or not it exists.
    pub fn folder(&self, entry: &str) -> PathBuf {
        self.root.join(entry)
    }

    /// Starts an entry. The caller must hold the lock for making entries.
    pub fn draft(&self, _lock: &Prepare, entry: &str) -> Result<EntryDraft, LabError> {
        EntryDraft::new(&self.root, self.folder(entry))
    }

    /// Returns the folder for downloads. It is kept if a preparation fails, so that the next one does not start over.
    pub fn downloads(&self, _lock: &Prepare) -> Result<PathBuf, LabError> {
        let path = self.root.join(DOWNLOADS);
        fs::create_dir_all(&path).map_err(cannot("make", &path))?;
        Ok(path)
    }

    /// Removes the downloads.
    pub fn remove_downloads(&self, _lock: &Prepare) -> Result<(), LabError> {
        let path = self.root.join(DOWNLOADS);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes unfinished entries and downloads, unless a preparation is running or the cache is not writable.
    pub fn tidy(&self) -> Result<(), LabError> {
        let is_left = |name: &String| name.starts_with(DRAFT) || name == DOWNLOADS;
        if !self.names()?.iter().any(is_left) {
            return Ok(());
        }
        let (lock, _) = match self.lock_file(PREPARE) {
            Err(error) if error.is_read_only() => return Ok(()),
            lock => lock?,
        };
        if lock.try_lock().is_ok() {
            self.sweep()?;
            self.remove_downloads(&Prepare { _lock: lock })?;
        }
        Ok(())
    }

    /// Takes the lock for making entries. If another process holds it, calls `waiting` and then waits.
    pub fn lock_prepare(&self, waiting: impl FnOnce()) -> Result<Prepare, LabError> {
        let (lock, path) = self.lock_file(PREPARE)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                lock.lock().map_err(cannot("lock", path))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(cannot("lock", path)(error));
            }
        }
        self.sweep()?;
        Ok(Prepare { _lock: lock })
    }

    /// Takes the lock for using entries: `clean` refuses to run while the result exists.
    pub fn lock_use(&self) -> Result<Use, LabError> {
        let (lock, path) = match self.lock_file(USE) {
            // A process with write permission may still remove entries.
            Err(error) if error.is_read_only() => {
                let path = self.root.join(USE);
                match File::open(&path) {
                    Ok(lock) => (lock, path),
                    // No process has ever taken the lock, so none waits for this one.
                    Err(_) => return Ok(Use { _lock: None }),
                }
            }
            lock => lock?,
        };
        lock.lock_shared().map_err(cannot("lock", path))?;
        Ok(Use { _lock: Some(lock) })
    }

    /// Returns all entries, sorted by name.
    pub fn entries(&self) -> Result<Vec<ListedEntry>, LabError> {
        let mut entries = Vec::new();
        for name in self.names()? {
            let path = self.root.join(&name);
            let is_entry = path.is_dir() && name.contains('-') && !name.starts_with(DRAFT);
            if is_entry && let Some(entry) = CacheEntry::open(path).transpose() {
                entries.push((name, entry));
            }
        }
        Ok(entries)
    }

    /// Removes everything and returns the bytes freed. Fails if another process makes or uses entries.
    pub fn clean(&self) -> Result<DiskSize, LabError> {
        if !self.root.exists() {
            return Ok(DiskSize(0));
        }
        let mut locks = Vec::new();
        for name in [PREPARE, USE] {
            let (lock, _) = self.lock_file(name)?;
            lock.try_lock().map_err(|_| {
                failed!("{} is in use by another `vmbell lab`", self.root.display())
            })?;
            locks.push(lock);
        }
        let mut freed = 0;
        for name in self.names()? {
            let path = self.root.join(&name);
            // The lock files are kept: if one were removed, another process could create and lock it again.
            if !name.ends_with(".lock") {
                freed += disk_size(&path);
                let removed = if path.is_dir() {
                    fs::remove_dir_all(&path)
                } else {
                    fs::remove_file(&path)
                };
                removed.map_err(cannot("remove", path))?;
            }
        }
        Ok(DiskSize(freed))
    }

    /// Removes the unfinished entries of preparations that were killed.
    fn sweep(&self) -> Result<(), LabError> {
        for name in self.names()?.iter().filter(|name| name.starts_with(DRAFT)) {
            let path = self.root.join(name);
            fs::remove_dir_all(&path).map_err(cannot("remove", path))?;
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, LabError> {
        names(&self.root)
    }

    fn lock_file(&self, name: &str) -> Result<(File, PathBuf), LabError> {
        fs::create_dir_all(&self.root).map_err(cannot("make", &self.root))?;
        let path = self.root.join(name);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(cannot("open", &path))?;
        Ok((lock, path))
    }
}

/// Returns the folder `name` among the user's caches: `$XDG_CACHE_HOME/vmbell/NAME`, or `~/.cache/vmbell/NAME`.
pub(crate) fn user_folder(name: &str) -> Result<PathBuf, LabError> {
    let base = caches(|name| std::env::var_os(name)).ok_or_else(|| {
        failed!(
            "neither XDG_CACHE_HOME nor HOME is an absolute path, so the lab has no cache folder"
        )
    })?;
    Ok(base.join("vmbell").join(name))
}

/// Returns the folder of the user's caches. As the XDG specification demands, a relative path is ignored: it would be a
/// different folder for each working directory.
pub(super) fn caches(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))
}

/// Returns the sorted names in a folder; none if it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, LabError> {
    let list = match fs::read_dir(folder) {
        Ok(list) => list,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot("list", folder)(error)),
    };
    let mut names: Vec<_> = list
        .flatten()
        .map(|item| item.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn disk_size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::read_dir(path).map_or(0, |list| {
            list.flatten().map(|item| disk_size(&item.path())).sum()
        }),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}
