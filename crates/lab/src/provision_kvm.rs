//! The cache entries of a kernel whose KVM is changed: what builds it, the kernel with the modules that the user's changes make, and
//! our own module for the kernel's KVM.

use std::fs;
use std::path::PathBuf;

use super::super::apt::Apt;
use super::super::arch::Arch;
use super::super::cache::{Entry, Size, hash_bytes, require_programs, require_space};
use super::super::debian;
use super::super::kvm::{Changes, IOEVENTFD, IOEVENTFD_SOURCES, KvmChanges, KvmError, Tools, Tree};
use super::super::out_of_tree::Release;
use super::modules::FromApt;
use super::{Kernel, KernelChoice, LabError, Provision, prepare};
use crate::FileError;

/// The kind of a kernel with changed modules.
const KIND: &str = "kvm";
/// The kind of our own module.
const MODULE: &str = "modules";
/// The kind of what builds them.
const TOOLS: &str = "kvmtools";
/// Raised when the way of building changes.
const REVISION: u32 = 1;
/// Raised when other packages or files are needed for it.
const TOOLS_REVISION: u32 = 2;
/// The folder of the builds, next to the entry's files.
const TREE: &str = "tree";
/// Peak disk space: the compiler, the headers and the archive of the source, packed and unpacked.
const SPACE: u64 = 900_000_000;

impl Provision<'_> {
    /// The kernel with KVM built from its own source with the user's changes; without changes the kernel itself.
    pub fn kernel_with(
        &mut self,
        named: Option<&KernelChoice>,
        wanted: &KvmChanges,
    ) -> Result<Kernel, LabError> {
        if wanted.is_empty() {
            return self.kernel(named);
        }
        self.require_debians_kvm(named)?;
        let board = self.board;
        let kernel = self.kernel(named)?;
        let name = kernel.release().to_owned();
        let (sources, release) = self.sources_for(&name)?;
        let changes = Changes::read(wanted, &name)?;
        changes.require_some()?;
        let recipe = format!(
            "revision {REVISION}\n{}\n{name}\n{}\n{:?}",
            kernel.image.display(),
            changes.digest(),
            board.modules
        );
        let hash = hash_bytes(recipe.as_bytes());
        if let Some(entry) = self.begin(KIND, &hash)? {
            return Ok(Kernel::of(&entry, None));
        }
        let tools = self.kvm_tools(&release, &sources)?;
        let folder = tools.folder().join(TREE);
        let tools = Tools::open(tools.path(""), &release)?;
        let tree = Tree::open(folder, &tools, &release)?;
        let draft = self.draft(KIND, &hash)?;
        let scratch = draft.scratch();
        fs::create_dir_all(&scratch).map_err(FileError::of("make", &scratch))?;
        let changed = tree.changed(&changes, &scratch)?;
        let what = match changed.len() {
            0 => "KVM unchanged".to_owned(),
            1 => "KVM patched (1 file)".to_owned(),
            count => format!("KVM patched ({count} files)"),
        };
        self.progress
            .say(format_args!("building {what}, for Linux {release}"));
        let spinner = self.progress.spin("in the build of KVM");
        let built = tree.build(&changed)?;
        drop(spinner);
        prepare::with_modules(board, &draft, &kernel, &built)?;
        let entry = draft.commit(format!("{}, {what}", kernel.title), Vec::new())?;
        Ok(Kernel::of(&entry, None))
    }

    /// The file of our own module that takes over KVM's ioeventfds, for this kernel. It is built when it is needed for the first
    /// time.
    pub fn kvm_ioeventfd(&mut self, kernel: &Kernel) -> Result<PathBuf, LabError> {
        let file = format!("{IOEVENTFD}.ko");
        let (sources, release) = self.sources_for(kernel.package())?;
        let recipe = format!(
            "revision {REVISION}\n{release}\n{}\n{:?}",
            IOEVENTFD_SOURCES.digest(),
            kernel.headers
        );
        let hash = hash_bytes(recipe.as_bytes());
        if let Some(entry) = self.begin(MODULE, &hash)? {
            return Ok(entry.path(file));
        }
        let tools = self.kvm_tools(&release, &sources)?;
        let folder = tools.folder().join(TREE);
        let tools = Tools::open(tools.path(""), &release)?;
        let draft = self.draft(MODULE, &hash)?;
        let scratch = draft.scratch();
        let release = kernel.release();
        self.progress
            .say(format_args!("building {file} for Linux {release}"));
        IOEVENTFD_SOURCES.write(&scratch)?;
        match &kernel.headers {
            None => Tree::open(folder, &tools, tools.release())?.build_module(&scratch)?,
            Some(headers) => self.build_for_debug_kernel(&tools, headers, &scratch)?,
        }
        let (from, to) = (scratch.join(&file), draft.path(&file));
        fs::copy(&from, to).map_err(FileError::of("copy", from))?;
        let entry = draft.commit(format!("{file} for Linux {release}"), Vec::new())?;
        Ok(entry.path(file))
    }

    /// Refuses a kernel whose KVM is not a module of one of Debian's packages, before anything is downloaded for it.
    pub fn require_debians_kvm(&self, named: Option<&KernelChoice>) -> Result<(), LabError> {
        if self.board.arch != Arch::X86_64 {
            let arch = self.board.arch.name;
            return Err(KvmError::BuiltIn { arch }.into());
        }
        if let Some(KernelChoice::File { image, .. }) = named {
            let kernel = image.display().to_string();
            return Err(KvmError::NotDebians { kernel }.into());
        }
        Ok(())
    }

    /// The sources of packages for a build for the kernel of this release.
    pub(super) fn sources_for(&self, name: &str) -> Result<(String, Release), KvmError> {
        let architecture = self.board.arch.package;
        debian::build_sources(name, self.host.package, architecture)
            .zip(Release::parse(name, architecture).ok())
            .ok_or_else(|| KvmError::NotDebians {
                kernel: format!("Linux {name}"),
            })
    }

    /// What builds KVM for the kernel of this release, from these sources of packages.
    pub(super) fn kvm_tools(
        &mut self,
        release: &Release,
        sources: &str,
    ) -> Result<Entry, LabError> {
        require_programs(self.cache.root())?;
        let recipe = format!(
            "revision {TOOLS_REVISION}\n{release}\n{}",
            self.host.package
        );
        let hash = hash_bytes(recipe.as_bytes());
        if let Some(entry) = self.begin(TOOLS, &hash)? {
            return Ok(entry);
        }
        require_space(self.cache.root(), Size(SPACE))?;
        let apt: Apt = self.debian_apt("KVM's source and compiler", "--kernel", sources)?;
        let draft = self.draft(TOOLS, &hash)?;
        let scratch = draft.scratch();
        fs::create_dir_all(&scratch).map_err(FileError::of("make", &scratch))?;
        let mut packages = FromApt::new(&apt, self.progress);
        let root = draft.path("");
        Tools::unpack(&mut packages, self.host, release, &root, &scratch)?;
        let title = format!("compiler, headers and KVM's source for Linux {release}");
        let entry = draft.commit(title, packages.used)?;
        apt.forget(&entry.manifest().packages);
        self.progress.say(format_args!(
            "{} are ready, {}",
            entry.manifest().title,
            Size(entry.manifest().size())
        ));
        Ok(entry)
    }
}
