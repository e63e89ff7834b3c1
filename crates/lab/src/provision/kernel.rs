//! The cache entries of kernels: the user's own, the distribution's, and Debian's by version.

use std::fmt;
use std::path::{Path, PathBuf};

use super::recipe::{PackageRecipe, ProvisionKind, Recipe};
use super::{MadeEntry, Provision};
use crate::board::EmulatorKind;
use crate::cache::{DiskSize, hash_file, require_space};
use crate::debian::{self, KernelVersion};
use crate::error::{LabError, cannot};
use crate::kernel::{KernelImage, ModuleTree};
use crate::out_of_tree::Packages;
use crate::prepare::{self, LabKernel};

/// Peak disk space: the indexes, the packages, unpacked files, and the decompressed kernel.
const SPACE: u64 = 500_000_000;

/// A kernel that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    /// A file.
    File {
        /// A bzImage or an ELF vmlinux for x86-64, an Image for arm64.
        image: PathBuf,
        /// The kernel's module folder; `Some(None)` if KVM is built in, `None` to guess the folder from the image's
        /// path.
        modules: Option<Option<PathBuf>>,
    },
    /// One of Debian's kernels.
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

impl Provision<'_> {
    /// Returns the kernel that the user names, or otherwise the kernel of the distribution's package.
    pub fn kernel(&mut self, named: Option<&KernelChoice>) -> Result<LabKernel, LabError> {
        match named {
            Some(KernelChoice::File { image, modules }) => {
                return self.own_kernel(image, modules.as_ref());
            }
            _ if matches!(self.board.emulator, EmulatorKind::Bochs(_)) => {
                return self.kernel_for_vmx(named);
            }
            Some(KernelChoice::Debian(version)) => return self.debian_kernel(version),
            None => {}
        }
        let board = self.board;
        if let Some(version) = board.kernel {
            return self.debian_kernel(&version.parse()?);
        }
        let entry = self.package_entry(&PackageRecipe::linux(board), |draft| {
            prepare::linux(board, draft)
        })?;
        Ok(LabKernel::of(&entry, None))
    }

    fn own_kernel(
        &mut self,
        path: &Path,
        modules: Option<&Option<PathBuf>>,
    ) -> Result<LabKernel, LabError> {
        let digest = hash_file(path).map_err(cannot("read", path))?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let version = name
            .split_once('-')
            .map_or(name.clone(), |(_, version)| version.to_owned());
        let modules = match modules {
            Some(modules) => modules.clone(),
            // The modules of `boot/vmlinuz-V` are in `lib/modules/V`, also in an unpacked package.
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
        let board = self.board;
        let text = format!("{digest}\n{modules:?}\n{state:?}\n{:?}", board.modules);
        let recipe = Recipe::new(ProvisionKind::Kernel, text);
        let entry = self.entry(&recipe, |_, draft| {
            // A file that is not a kernel has no modules either, so the image is checked first.
            let image = KernelImage::read(path, board.arch.name)?;
            prepare::kernel(board, draft, &image, tree.transpose()?.as_ref())?;
            let version = image.version.unwrap_or(version);
            Ok(MadeEntry::of(format!(
                "Linux {version} ({})",
                path.display()
            )))
        })?;
        Ok(LabKernel::of(&entry, modules))
    }

    /// Returns Debian's newest kernel of this version. It does not change until the cache is cleaned.
    fn debian_kernel(&mut self, version: &KernelVersion) -> Result<LabKernel, LabError> {
        let board = self.board;
        let packages = PackageRecipe::debian(board, version);
        let entry = self.entry(&packages.recipe(), |this, draft| {
            require_space(this.cache.root(), DiskSize(SPACE))?;
            let sources = debian::sources(packages.architecture);
            let mut from = this.debian_packages("a kernel of Debian", packages.option, &sources)?;
            let names = from.apt.names(debian::PACKAGES)?;
            let found = version.packages(&names, packages.architecture);
            // A version that was not found may be in a suite whose index is missing.
            let found = found.map_err(|error| match from.apt.no_indexes() {
                Some(missing) => missing,
                None => error,
            })?;
            for name in &found {
                from.unpack_alone(packages.architecture, &[name], &draft.scratch())?;
            }
            let title = prepare::linux(board, draft)?;
            Ok(MadeEntry {
                title: format!("{title} ({version})"),
                packages: from.used,
            })
        })?;
        Ok(LabKernel::of(&entry, None))
    }

    /// Returns the versions of Debian's kernels between two releases (`uname -r`), in order.
    pub fn debian_between(&mut self, old: &str, new: &str) -> Result<Vec<KernelVersion>, LabError> {
        let architecture = self.board.arch.package;
        let progress = self.progress;
        self.hold()?;
        let sources = debian::sources(architecture);
        let from = self.debian_packages("a kernel of Debian", "--kernel", &sources)?;
        let names = from.apt.names(debian::PACKAGES)?;
        match from.apt.no_indexes() {
            Some(error) if names.is_empty() => return Err(error),
            Some(error) => progress.say(format_args!(
                "{error}: kernels that only this index has are left out"
            )),
            None => {}
        }
        let flavour = debian::flavour(architecture);
        let [old, new] = [old, new].map(|release| release.trim_end_matches(&flavour));
        let found = debian::between(&names, architecture, old, new);
        Ok(found
            .iter()
            .map(|release| KernelVersion::exactly(release))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;
    use crate::board::{LabBoard, X86_64};
    use crate::cache::Cache;
    use crate::progress::LabProgress;
    use std::fs;

    #[test]
    fn a_module_that_is_built_again_is_noticed() {
        let board = LabBoard {
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
            let mut provision =
                Provision::new(Arch::X86_64, &board, &cache, LabProgress::new(true));
            let kernel = provision.kernel(Some(&choice)).unwrap();
            fs::read(kernel.base).unwrap()
        };
        let has = |base: &[u8], text: &[u8]| base.windows(text.len()).any(|part| part == text);
        assert!(has(&base(b"first build"), b"first build"));
        assert!(has(&base(b"other build"), b"other build"));
    }
}
