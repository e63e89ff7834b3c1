//! Finds an emulator and a kernel, and downloads and prepares what is missing. The thread that prepares runs this.
//!
//! Each part is a cache entry, named by its [`Recipe`]. [`Provision::entry`] finds or makes it.

mod bochs;
mod debug;
mod kernel;
mod kvm;
mod modules;
mod netperf;
mod packages;
mod qemu;
mod recipe;
mod selftests;

use super::apt::Apt;
use super::arch::Arch;
use super::board::LabBoard;
use super::cache::{Cache, CacheEntry, DiskSize, EntryDraft, Prepare, SourcePackage};
use super::progress::LabProgress;
use crate::error::{LabError, LabFailure};

pub use kernel::KernelChoice;
pub use netperf::Netperf;
pub use recipe::{PackageRecipe, ProvisionKind, Recipe};

/// Prepares the lab's parts in one cache.
#[derive(Debug)]
pub struct Provision<'a> {
    host: Arch,
    board: &'a LabBoard,
    cache: &'a Cache,
    progress: LabProgress,
    /// Held from the first preparation to the last.
    lock: Option<Prepare>,
    /// The client for the system's sources, kept so that their indexes are fetched only once.
    system: Option<Apt>,
    /// The client for the Debian sources that were read last.
    debian: Option<Apt>,
}

/// What is known about the files of a finished entry.
#[derive(Debug)]
struct MadeEntry {
    /// The entry's title for people.
    title: String,
    packages: Vec<SourcePackage>,
}

impl MadeEntry {
    /// Describes files that were made without downloading a package.
    fn of(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            packages: Vec::new(),
        }
    }
}

impl<'a> Provision<'a> {
    /// Prepares the parts of `board` in `cache`, with a QEMU that runs on `host`.
    pub fn new(host: Arch, board: &'a LabBoard, cache: &'a Cache, progress: LabProgress) -> Self {
        Self {
            host,
            board,
            cache,
            progress,
            lock: None,
            system: None,
            debian: None,
        }
    }

    /// Removes the indexes and packages, which are no longer needed, and what a killed preparation has left.
    pub fn finish(self) -> Result<(), LabError> {
        match &self.lock {
            Some(lock) => self.cache.remove_downloads(lock),
            None => self.cache.tidy(),
        }
    }

    /// Returns the entry of this recipe. A missing entry is made: `make` writes its files while no other process
    /// prepares.
    fn entry(
        &mut self,
        recipe: &Recipe,
        make: impl FnOnce(&mut Self, &EntryDraft) -> Result<MadeEntry, LabError>,
    ) -> Result<CacheEntry, LabError> {
        if let Some(entry) = self.existing(recipe)? {
            return Ok(entry);
        }
        if self.lock.is_none() {
            self.hold()?;
            // Another process may have made the entry while this process waited for the lock.
            if let Some(entry) = self.existing(recipe)? {
                return Ok(entry);
            }
        }
        let draft = self.cache.draft(self.lock(), &recipe.entry())?;
        let made = make(self, &draft)?;
        let entry = draft.commit(made.title, made.packages)?;
        let manifest = entry.manifest();
        for apt in self.system.iter().chain(&self.debian) {
            apt.forget(&manifest.packages);
        }
        if !manifest.packages.is_empty() {
            let size = DiskSize(manifest.size());
            self.progress
                .say(format_args!("prepared {}, {size}", manifest.title));
        }
        Ok(entry)
    }

    /// Returns the entry of this recipe, if it exists and is not damaged.
    fn existing(&self, recipe: &Recipe) -> Result<Option<CacheEntry>, LabError> {
        match CacheEntry::open(self.cache.folder(&recipe.entry())) {
            Err(error) if error.kind() == LabFailure::Damaged => {
                self.progress.say(format_args!("{error}; making it again"));
                Ok(None)
            }
            result => Ok(result?),
        }
    }

    /// Takes the lock for making entries, unless it is held.
    fn hold(&mut self) -> Result<(), LabError> {
        if self.lock.is_none() {
            self.lock = Some(self.cache.lock_prepare(|| {
                self.progress
                    .say("waiting for another `vmbell lab` that prepares this cache");
            })?);
        }
        Ok(())
    }

    /// Returns the lock after [`hold`](Self::hold).
    fn lock(&self) -> &Prepare {
        match &self.lock {
            Some(lock) => lock,
            None => unreachable!("held before"),
        }
    }
}
