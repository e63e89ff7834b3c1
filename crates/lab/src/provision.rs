//! Finds QEMU and a kernel, and downloads and prepares those that are missing.

#[path = "provision_debian.rs"]
mod debian;
#[path = "provision_debug.rs"]
mod debug;
#[path = "provision_kvm.rs"]
mod kvm;
#[path = "provision_modules.rs"]
mod modules;
#[path = "provision_netperf.rs"]
mod netperf;
#[path = "provision_selftests.rs"]
mod selftests;

use std::fmt;
use std::path::{Path, PathBuf};

use super::apt::{Apt, Package};
use super::arch::Arch;
use super::board::Board;
use super::boot::Settings;
use super::cache::{
    Cache, CacheError, Draft, Entry, Prepare, Size, SourcePackage, hash_bytes, hash_file,
    require_programs, require_space,
};
use super::debian::{KernelVersion, release_sources as debian_release};
use super::kernel::{KernelImage, ModuleTree};
use super::qemu::Qemu;
use super::{Kernel, LabError, Progress, Recipe, prepare, tree};
use crate::FileError;

pub use self::netperf::Netperf;

/// Peak disk space of a preparation in multiples of the download: packages, unpacked files, kernel decompressed.
const PEAK: u64 = 6;

/// What is said if no byte of the package indexes has come after a while.
const NO_ANSWER: &str =
    "no answer from the package sources yet: is there a network, or a proxy to be set?";
/// Disk space that the package indexes take, in bytes: those of Debian 12 with its security suite.
const INDEXES: u64 = 100_000_000;

/// A kernel that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    /// A file.
    File {
        /// A bzImage or an ELF vmlinux for x86-64, an Image for arm64.
        image: PathBuf,
        /// Its module folder; `Some(None)` for a kernel that has KVM built in, `None` to guess from the image's path.
        modules: Option<Option<PathBuf>>,
    },
    /// One of Debian's.
    Debian(KernelVersion),
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { image, .. } => image.display().fmt(f),
            Self::Debian(version) => version.fmt(f),
        }
    }
}

/// Prepares the lab's parts in one cache.
#[derive(Debug)]
pub struct Provision<'a> {
    host: Arch,
    board: &'a Board,
    cache: &'a Cache,
    progress: Progress,
    // Both are kept from the first preparation to the last, so that the package indexes are fetched once.
    lock: Option<Prepare>,
    apt: Option<Apt>,
}

impl<'a> Provision<'a> {
    /// Prepares the parts of `board` in `cache`, with a QEMU that runs on `host`.
    pub fn new(host: Arch, board: &'a Board, cache: &'a Cache, progress: Progress) -> Self {
        Self {
            host,
            board,
            cache,
            progress,
            lock: None,
            apt: None,
        }
    }

    /// The QEMU that the user names, otherwise one on PATH, otherwise that of a package.
    pub fn qemu(&mut self, named: Option<&Path>) -> Result<Qemu, LabError> {
        if let Some(program) = named {
            return Ok(Qemu::named(program, self.board)?);
        }
        if let Some(qemu) = Qemu::on_path(self.board) {
            return Ok(qemu);
        }
        require_programs(self.cache.root())?;
        let (host, board) = (self.host, self.board);
        let entry = self.package_entry(&Recipe::qemu(host, board), |draft| {
            prepare::qemu(host, board, draft)
        })?;
        Ok(Qemu::packaged(host, board, &entry)?)
    }

    /// The kernel that the user names, otherwise that of the distribution's package.
    pub fn kernel(&mut self, named: Option<&KernelChoice>) -> Result<Kernel, LabError> {
        match named {
            Some(KernelChoice::File { image, modules }) => {
                return self.own_kernel(image, modules.as_ref());
            }
            Some(KernelChoice::Debian(version)) => return self.debian_kernel(version),
            None => {}
        }
        let board = self.board;
        if let Some(version) = board.kernel {
            return self.debian_kernel(&version.parse()?);
        }
        let entry =
            self.package_entry(&Recipe::linux(board), |draft| prepare::linux(board, draft))?;
        Ok(Kernel::of(&entry, None))
    }

    /// A static shell that has all of its commands in one file. With `optional` nothing is downloaded, so there may be
    /// none.
    pub fn shell(&mut self, optional: bool) -> Result<Option<PathBuf>, LabError> {
        let recipe = Recipe::shell(self.board);
        let entry = if optional {
            self.existing(recipe.kind, &recipe.hash())?
        } else {
            Some(self.package_entry(&recipe, prepare::shell)?)
        };
        Ok(entry.map(|entry| entry.path(prepare::SHELL)))
    }

    /// The device tree for a machine of which QEMU's own is not right; `None` if it is.
    pub fn tree(&mut self, qemu: &Qemu, settings: &Settings) -> Result<Option<PathBuf>, LabError> {
        const KIND: &str = "tree";
        if tree::masters(settings).next().is_none() {
            return Ok(None);
        }
        let board = self.board;
        let hash = hash_bytes(tree::recipe(qemu, board, settings).as_bytes());
        if let Some(entry) = self.begin(KIND, &hash)? {
            return Ok(Some(entry.path(tree::TREE)));
        }
        let draft = self.draft(KIND, &hash)?;
        let title = tree::make(qemu, board, settings, &draft)?;
        let entry = draft.commit(title, Vec::new())?;
        Ok(Some(entry.path(tree::TREE)))
    }

    /// Removes the indexes and packages, which nothing needs once everything is in place, and what a
    /// preparation that was killed has left.
    pub fn finish(self) -> Result<(), LabError> {
        let removed = match &self.lock {
            Some(lock) => self.cache.remove_downloads(lock),
            None => self.cache.tidy(),
        };
        Ok(removed?)
    }

    /// An entry of packages, of the system's sources or of a release of Debian.
    fn package_entry(
        &mut self,
        recipe: &Recipe,
        make: impl FnOnce(&Draft) -> Result<String, LabError>,
    ) -> Result<Entry, LabError> {
        let hash = recipe.hash();
        let wanted = match recipe.kind {
            "qemu" => "QEMU",
            "shell" => "a shell",
            _ => "a kernel",
        };
        if let Some(entry) = self.begin(recipe.kind, &hash)? {
            return Ok(entry);
        }
        let release = recipe.release();
        let of_release;
        let apt = match release {
            Some(release) => {
                let sources = debian_release(release, &[self.host.package]);
                of_release = self.debian_apt(wanted, recipe.option, &sources)?;
                &of_release
            }
            None => {
                self.fetch_indexes(wanted, recipe.option)?;
                self.apt()
            }
        };
        let resolved = apt.resolve(recipe.architecture, &recipe.alternatives, recipe.stand_ins);
        let (name, packages) = resolved.map_err(|error| match release {
            Some(_) => debian::no_indexes(apt).unwrap_or_else(|| error.into()),
            None => error.into(),
        })?;
        let total: u64 = packages.iter().map(|package| package.size).sum();
        let root = self.cache.root();
        require_space(root, Size(total.saturating_mul(PEAK)))?;
        let (count, plural) = (packages.len(), if packages.len() == 1 { "" } else { "s" });
        self.progress.say(format_args!(
            "downloading {name}: {count} package{plural}, {}, into {}",
            Size(total),
            root.display()
        ));
        {
            let _bar = self
                .progress
                .follow(apt.archives(), total, apt.others(&packages));
            apt.download(&name, &packages)?;
        }
        let draft = self.draft(recipe.kind, &hash)?;
        // QEMU runs from the folder into which it is unpacked; of other packages only parts are kept.
        let target = if recipe.kind == "qemu" {
            draft.path("")
        } else {
            draft.scratch()
        };
        self.unpack(apt, &packages, &target)?;
        let title = make(&draft)?;
        let sources = packages.into_iter().map(|p| SourcePackage {
            file: p.file,
            size: p.size,
            sha256: p.sha256,
        });
        let entry = draft.commit(title, sources.collect())?;
        apt.forget(&entry.manifest().packages);
        self.progress.say(format_args!(
            "{} is ready, {}",
            entry.manifest().title,
            Size(entry.manifest().size())
        ));
        Ok(entry)
    }

    /// The entry if there is one; otherwise the lock for making it is held when this returns.
    fn begin(&mut self, kind: &str, hash: &str) -> Result<Option<Entry>, LabError> {
        let existing = self.existing(kind, hash)?;
        if existing.is_some() || self.lock.is_some() {
            return Ok(existing);
        }
        self.hold()?;
        // Another process may have made the entry while this one waited for the lock.
        self.existing(kind, hash)
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

    /// The lock, after [`begin`](Self::begin).
    fn lock(&self) -> &Prepare {
        match &self.lock {
            Some(lock) => lock,
            None => unreachable!("begun before"),
        }
    }

    fn draft(&self, kind: &str, hash: &str) -> Result<Draft, CacheError> {
        self.cache.draft(self.lock(), kind, hash)
    }

    /// Fetches the indexes of the system's package sources, unless they are there; errors name `wanted` and `option`.
    fn fetch_indexes(
        &mut self,
        wanted: &'static str,
        option: &'static str,
    ) -> Result<(), LabError> {
        if self.apt.is_some() {
            return Ok(());
        }
        let mut apt = Apt::new(
            self.cache.downloads(self.lock())?.join("apt"),
            self.host.package,
            self.board.arch.package,
            wanted,
            option,
        )?;
        require_space(self.cache.root(), Size(INDEXES))?;
        self.progress.say("fetching the package indexes");
        apt.update(|| self.progress.say(NO_ANSWER))?;
        self.apt = Some(apt);
        Ok(())
    }

    /// The package client, after [`fetch_indexes`](Self::fetch_indexes).
    fn apt(&self) -> &Apt {
        match &self.apt {
            Some(apt) => apt,
            None => unreachable!("fetched before"),
        }
    }

    fn unpack(&self, apt: &Apt, packages: &[Package], target: &Path) -> Result<(), LabError> {
        let bar = self.progress.count(packages.len() as u64);
        for package in packages {
            bar.set_message(package.file.clone());
            apt.unpack(package, target)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn own_kernel(
        &mut self,
        path: &Path,
        modules: Option<&Option<PathBuf>>,
    ) -> Result<Kernel, LabError> {
        let digest = hash_file(path).map_err(FileError::of("read", path))?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let version = name
            .split_once('-')
            .map_or(name.clone(), |(_, version)| version.to_owned());
        let modules = match modules {
            Some(modules) => modules.clone(),
            // The modules of `boot/vmlinuz-V` are in `lib/modules/V`, in an unpacked package as well.
            None => Some(
                path.parent()
                    .unwrap_or(Path::new(""))
                    .join("../lib/modules")
                    .join(&version),
            ),
        };
        let tree = modules
            .as_ref()
            .map(|folder| ModuleTree::open(folder, &version));
        let state = tree.as_ref().and_then(|tree| tree.as_ref().ok());
        let state = state.map(ModuleTree::state);
        let hash = hash_bytes(
            format!("{digest}\n{modules:?}\n{state:?}\n{:?}", self.board.modules).as_bytes(),
        );
        if let Some(entry) = self.begin("kernel", &hash)? {
            return Ok(Kernel::of(&entry, modules));
        }
        // A file that is not a kernel has no modules either, so the image is looked at first.
        let image = KernelImage::read(path, self.board.arch.name)?;
        let tree = tree.transpose()?;
        let draft = self.draft("kernel", &hash)?;
        prepare::kernel(self.board, &draft, &image, tree.as_ref())?;
        let title = format!(
            "Linux {} ({})",
            image.version.unwrap_or(version),
            path.display()
        );
        Ok(Kernel::of(&draft.commit(title, Vec::new())?, modules))
    }

    fn existing(&self, kind: &str, hash: &str) -> Result<Option<Entry>, LabError> {
        match Entry::open(self.cache.folder(kind, hash)) {
            Err(error) if error.is_damage() => {
                self.progress.say(format_args!("{error}; making it anew"));
                Ok(None)
            }
            result => Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::X86_64;
    use super::*;
    use std::fs;

    #[test]
    fn a_module_that_is_built_again_is_noticed() {
        let board = Board {
            modules: &["kvm"],
            ..X86_64
        };
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path().join("cache"));
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        (elf[18], elf[20], elf[52]) = (62, 1, 64);
        let (image, folder) = (root.path().join("vmlinux"), root.path().join("modules"));
        fs::create_dir(&folder).unwrap();
        fs::write(&image, &elf).unwrap();
        let choice = KernelChoice::File {
            image,
            modules: Some(Some(folder.clone())),
        };
        let base = |module: &[u8]| {
            fs::write(folder.join("kvm.ko"), [&elf, module].concat()).unwrap();
            let mut provision = Provision::new(Arch::X86_64, &board, &cache, Progress::new(true));
            let kernel = provision.kernel(Some(&choice)).unwrap();
            fs::read(kernel.base).unwrap()
        };
        let has = |base: &[u8], text: &[u8]| base.windows(text.len()).any(|part| part == text);
        assert!(has(&base(b"first build"), b"first build"));
        assert!(has(&base(b"other build"), b"other build"));
    }
}
