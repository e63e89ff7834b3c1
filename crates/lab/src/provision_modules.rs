//! The cache entry of modules that are built for one kernel, and the packages that their build takes.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::apt::{Apt, AptError, Package};
use super::super::cache::{
    Entry, Size, SourcePackage, hash_bytes, require_programs, require_space,
};
use super::super::out_of_tree::{self, Architectures, MODULES, Packages};
use super::{LabError, Progress, Provision};
use crate::FileError;

const KIND: &str = "modules";
/// Raised when the way of building changes.
const REVISION: u32 = 1;
/// Peak disk space of a build: the compiler, the headers and the archive of the source.
const SPACE: u64 = 600_000_000;

impl Provision<'_> {
    /// The modules of [`out_of_tree`] for the kernel of this release (`uname -r`), in their order of loading. They are built
    /// when they are needed for the first time.
    pub fn modules(&mut self, release: &str) -> Result<Vec<PathBuf>, LabError> {
        let architectures = Architectures {
            host: self.host.package,
            kernel: self.board.arch.package,
        };
        out_of_tree::check(release, architectures.kernel)?;
        let recipe = format!(
            "revision {REVISION}\n{release}\n{architectures:?}\n{}",
            out_of_tree::digest()
        );
        let hash = hash_bytes(recipe.as_bytes());
        let entry = match self.begin(KIND, &hash)? {
            Some(entry) => entry,
            None => {
                self.fetch_indexes("a kernel's headers", "--kernel")?;
                self.build(architectures, release, &hash)?
            }
        };
        let path = |name: &&str| entry.path(format!("{name}.ko"));
        Ok(MODULES.iter().map(path).collect())
    }

    fn build(
        &self,
        architectures: Architectures,
        release: &str,
        hash: &str,
    ) -> Result<Entry, LabError> {
        require_programs(self.cache.root())?;
        require_space(self.cache.root(), Size(SPACE))?;
        let draft = self.draft(KIND, hash)?;
        let scratch = draft.scratch();
        fs::create_dir_all(&scratch).map_err(FileError::of("make", &scratch))?;
        let mut packages = FromApt::new(self.apt(), self.progress);
        self.progress
            .say(format_args!("building modules for Linux {release}"));
        out_of_tree::build(
            &mut packages,
            architectures,
            release,
            &scratch,
            &draft.path(""),
        )?;
        let entry = draft.commit(format!("modules for Linux {release}"), packages.used)?;
        self.apt().forget(&entry.manifest().packages);
        self.progress
            .say(format_args!("{} are ready", entry.manifest().title));
        Ok(entry)
    }
}

/// Packages of apt's sources.
pub(super) struct FromApt<'a> {
    apt: &'a Apt,
    progress: Progress,
    /// What was unpacked, for the manifest.
    pub(super) used: Vec<SourcePackage>,
}

impl<'a> FromApt<'a> {
    pub(super) fn new(apt: &'a Apt, progress: Progress) -> Self {
        Self {
            apt,
            progress,
            used: Vec::new(),
        }
    }

    fn take(
        &mut self,
        name: &str,
        packages: Vec<Package>,
        target: &Path,
        download: impl FnOnce(&Apt, &[Package]) -> Result<(), AptError>,
    ) -> Result<(), LabError> {
        let total = packages.iter().map(|package| package.size).sum();
        self.progress
            .say(format_args!("downloading {name}, {}", Size(total)));
        {
            let _bar = self
                .progress
                .follow(self.apt.archives(), total, self.apt.others(&packages));
            download(self.apt, &packages)?;
        }
        for package in &packages {
            self.apt.unpack(package, target)?;
        }
        self.used
            .extend(packages.into_iter().map(|p| SourcePackage {
                file: p.file,
                size: p.size,
                sha256: p.sha256,
            }));
        Ok(())
    }
}

impl Packages for FromApt<'_> {
    fn unpack(
        &mut self,
        architecture: &str,
        alternatives: &[&str],
        stand_ins: &[&str],
        target: &Path,
    ) -> Result<(), LabError> {
        let (name, packages) = self.apt.resolve(architecture, alternatives, stand_ins)?;
        self.take(&name, packages, target, |apt, packages| {
            apt.download(&name, packages)
        })
    }

    fn unpack_alone(
        &mut self,
        architecture: &str,
        alternatives: &[&str],
        target: &Path,
    ) -> Result<String, LabError> {
        let (name, package) = self.apt.resolve_alone(architecture, alternatives)?;
        let file = package.file.clone();
        self.take(&name, vec![package], target, |apt, packages| {
            apt.download_alone(&name, packages)
        })?;
        Ok(file)
    }
}
