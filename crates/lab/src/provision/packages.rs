//! The packages from which entries are made, from the system's sources or from Debian's.

use std::path::{Path, PathBuf};

use super::recipe::PackageRecipe;
use super::{MadeEntry, Provision, ProvisionKind};
use crate::apt::{Apt, Package};
use crate::cache::{Cache, CacheEntry, DiskSize, EntryDraft, SourcePackage, require_space};
use crate::debian;
use crate::error::LabError;
use crate::out_of_tree::Packages;
use crate::progress::LabProgress;

/// Peak disk space of a preparation, as a multiple of the download: packages, unpacked files, decompressed kernel.
const PEAK: u64 = 6;
/// Disk space of the package indexes in bytes, measured with Debian 12 and its security suite.
const INDEXES: u64 = 100_000_000;
/// The message if no byte of the package indexes has arrived after a while.
const NO_ANSWER: &str =
    "no answer from the package sources yet: is there a network, or a proxy to be set?";

impl Provision<'_> {
    /// Returns an entry made from packages, from the system's sources or a Debian release. After they are unpacked,
    /// `make` finishes the entry and returns its title.
    pub(super) fn package_entry(
        &mut self,
        packages: &PackageRecipe,
        make: impl FnOnce(&EntryDraft) -> Result<String, LabError>,
    ) -> Result<CacheEntry, LabError> {
        let wanted = match packages.kind {
            ProvisionKind::Qemu => "QEMU",
            ProvisionKind::Shell => "a shell",
            _ => "a kernel",
        };
        self.entry(&packages.recipe(), |this, draft| {
            let mut from = match packages.release() {
                Some(release) => {
                    let sources = debian::release_sources(release, &[this.host.package]);
                    this.debian_packages(wanted, packages.option, &sources)?
                }
                None => this.system_packages(wanted, packages.option)?,
            };
            // QEMU runs from the folder into which it is unpacked. Of other packages, only parts are kept.
            let target = match packages.kind {
                ProvisionKind::Qemu => draft.path(""),
                _ => draft.scratch(),
            };
            let names: Vec<&str> = packages.alternatives.iter().map(String::as_str).collect();
            from.unpack(packages.architecture, &names, packages.stand_ins, &target)?;
            let packages = from.used;
            Ok(MadeEntry {
                title: make(draft)?,
                packages,
            })
        })
    }

    /// Returns the packages of the system's sources; their indexes are fetched once. Errors name `wanted` and `option`,
    /// if there is one that makes the packages unnecessary.
    pub(super) fn system_packages(
        &mut self,
        wanted: &'static str,
        option: impl Into<Option<&'static str>>,
    ) -> Result<FromApt<'_>, LabError> {
        if self.system.is_none() {
            let mut apt = self.client("apt", wanted, option.into())?;
            require_space(self.cache.root(), DiskSize(INDEXES))?;
            self.progress.say("fetching the package indexes");
            apt.update(|| self.progress.say(NO_ANSWER))?;
            self.system = Some(apt);
        }
        Ok(FromApt::new(
            self.system.as_mut(),
            self.cache,
            self.progress,
        ))
    }

    /// Returns the packages of these Debian sources.
    pub(super) fn debian_packages(
        &mut self,
        wanted: &'static str,
        option: impl Into<Option<&'static str>>,
        sources: &str,
    ) -> Result<FromApt<'_>, LabError> {
        let mut apt = self.client("debian", wanted, option.into())?;
        apt.read_only(sources, Some(debian::KEYRING))?;
        self.progress
            .say(format_args!("fetching Debian's indexes for {wanted}"));
        apt.update(|| self.progress.say(NO_ANSWER))?;
        self.debian = Some(apt);
        Ok(FromApt::new(
            self.debian.as_mut(),
            self.cache,
            self.progress,
        ))
    }

    /// Makes a package client with a folder of this name.
    fn client(
        &self,
        folder: &str,
        wanted: &'static str,
        option: Option<&'static str>,
    ) -> Result<Apt, LabError> {
        let folder = self.cache.downloads(self.lock())?.join(folder);
        let (host, foreign) = (self.host.package, self.board.arch.package);
        Apt::new(folder, host, foreign, wanted, option)
    }
}

/// The packages of one apt client's sources.
pub(super) struct FromApt<'a> {
    pub(super) apt: &'a mut Apt,
    cache: &'a Cache,
    progress: LabProgress,
    /// Unpacked packages, for the manifest.
    pub(super) used: Vec<SourcePackage>,
}

impl<'a> FromApt<'a> {
    fn new(apt: Option<&'a mut Apt>, cache: &'a Cache, progress: LabProgress) -> Self {
        let Some(apt) = apt else {
            unreachable!("made before");
        };
        Self {
            apt,
            cache,
            progress,
            used: Vec::new(),
        }
    }

    /// Adds a component to the sources that are read from now on.
    pub(super) fn add_component(&mut self, component: &str) -> Result<(), LabError> {
        self.apt.add_component(component)?;
        self.apt.update(|| self.progress.say(NO_ANSWER))
    }

    /// Downloads the packages and unpacks them into `target`.
    fn take(
        &mut self,
        name: &str,
        packages: Vec<Package>,
        target: &Path,
        download: impl FnOnce(&Apt, &[Package]) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        self.fetch(name, &packages, |apt| download(apt, &packages))?;
        let bar = self.progress.count(packages.len() as u64);
        for package in packages {
            bar.set_message(package.file.clone());
            self.apt.unpack(&package, target)?;
            self.note(package);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Downloads the archive with a package's source, and returns its path.
    pub(super) fn source(&mut self, name: &str) -> Result<PathBuf, LabError> {
        let archive = self.apt.resolve_source(name)?;
        let mut path = PathBuf::new();
        self.fetch(
            &format!("the source of {name}"),
            std::slice::from_ref(&archive),
            |apt| {
                path = apt.download_source(name, &archive)?;
                Ok(())
            },
        )?;
        self.note(archive);
        Ok(path)
    }

    /// Notes a package for the manifest.
    fn note(&mut self, package: Package) {
        self.used.push(SourcePackage {
            file: package.file,
            size: package.size,
            sha256: package.sha256,
        });
    }

    /// Downloads these packages and shows the progress.
    fn fetch(
        &self,
        name: &str,
        packages: &[Package],
        download: impl FnOnce(&Apt) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let total: u64 = packages.iter().map(|package| package.size).sum();
        let root = self.cache.root();
        require_space(root, DiskSize(total.saturating_mul(PEAK)))?;
        let (count, plural) = (packages.len(), if packages.len() == 1 { "" } else { "s" });
        self.progress.say(format_args!(
            "downloading {name}: {count} package{plural}, {}, into {}",
            DiskSize(total),
            root.display()
        ));
        let others = self.apt.others(packages);
        let _bar = self.progress.follow(self.apt.archives(), total, others);
        download(self.apt)
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
