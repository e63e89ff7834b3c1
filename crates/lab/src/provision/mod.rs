//! Finds QEMU and a kernel, and downloads and prepares those that are missing. The thread that prepares runs this.
//!
//! Each part is an entry of the cache, named by its [`Recipe`]: [`Provision::entry`] finds it or makes it.

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
    /// Kept from the first preparation to the last.
    lock: Option<Prepare>,
    /// The client of the system's sources, kept so that their indexes are fetched once.
    system: Option<Apt>,
    /// The client of the sources of Debian that were read last.
    debian: Option<Apt>,
}

/// What has been made of an entry's files.
#[derive(Debug)]
struct MadeEntry {
    /// The entry's title for people.
    title: String,
    packages: Vec<SourcePackage>,
}

impl MadeEntry {
    /// Files that no package was downloaded for.
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

    /// Removes the indexes and packages, which nothing needs once everything is in place, and what a
    /// preparation that was killed has left.
    pub fn finish(self) -> Result<(), LabError> {
        match &self.lock {
            Some(lock) => self.cache.remove_downloads(lock),
            None => self.cache.tidy(),
        }
    }

    /// The entry of this recipe. If there is none, `make` writes its files to the draft, while no other process prepares.
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
            // Another process may have made the entry while this one waited for the lock.
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

    /// The entry of this recipe, if there is one that is not damaged.
    fn existing(&self, recipe: &Recipe) -> Result<Option<CacheEntry>, LabError> {
        match CacheEntry::open(self.cache.folder(&recipe.entry())) {
            Err(error) if error.kind() == LabFailure::Damaged => {
                self.progress.say(format_args!("{error}; making it anew"));
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

    /// The lock, after [`hold`](Self::hold).
    fn lock(&self) -> &Prepare {
        match &self.lock {
            Some(lock) => lock,
            None => unreachable!("held before"),
        }
    }
}
