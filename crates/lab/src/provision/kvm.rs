//! The cache entries of a kernel with a changed KVM: the build tools, the kernel with the modules built from the user's
//! changes, and our own module for the kernel's KVM.

use std::fs;
use std::path::PathBuf;

use super::recipe::{ProvisionKind, Recipe};
use super::{KernelChoice, MadeEntry, Provision};
use crate::board::CpuVendor;
use crate::cache::{CacheEntry, DiskSize, require_programs, require_space};
use crate::debian;
use crate::error::{LabError, cannot, failed};
use crate::kvm::{
    IOEVENTFD, IOEVENTFD_SOURCES, KvmChanges, KvmTree, ReadChanges, Tools, VendorBuild,
};
use crate::out_of_tree::Release;
use crate::prepare::{self, LabKernel};

/// Increase this number when the way of building changes.
const REVISION: u32 = 1;
/// Increase this number when the build needs different packages or files.
const TOOLS_REVISION: u32 = 2;
/// The folder for builds, next to the entry's files.
const TREE: &str = "tree";
/// Peak disk space: the compiler, the headers and the source archive, packed and unpacked.
const SPACE: u64 = 900_000_000;

impl Provision<'_> {
    /// Returns the kernel with KVM built from its own source and the user's changes, or as it is without changes.
    pub fn kernel_with(
        &mut self,
        named: Option<&KernelChoice>,
        wanted: &KvmChanges,
    ) -> Result<LabKernel, LabError> {
        if wanted.is_empty() {
            return self.kernel(named);
        }
        let build = VendorBuild::of(self.require_debians_kvm(named)?);
        let board = self.board;
        let kernel = self.kernel(named)?;
        let name = kernel.release().to_owned();
        let (sources, release) = self.sources_for(&name)?;
        let changes = ReadChanges::read(wanted, &name, build)?;
        changes.require_some(build)?;
        let text = format!(
            "revision {REVISION}\n{}\n{name}\n{}\n{:?}",
            kernel.image.display(),
            changes.digest(),
            board.modules
        );
        let recipe = Recipe::new(ProvisionKind::Kvm, text);
        let entry = self.entry(&recipe, |this, draft| {
            let tools = this.kvm_tools(&release, &sources)?;
            let folder = tools.folder().join(TREE);
            let tools = Tools::open(tools.path(""), &release)?;
            let tree = KvmTree::open(folder, &tools, &release)?;
            let changed = tree.changed(&changes, &draft.scratch())?;
            let what = match changed.len() {
                0 => "KVM unchanged".to_owned(),
                1 => "KVM patched (1 file)".to_owned(),
                count => format!("KVM patched ({count} files)"),
            };
            this.progress
                .say(format_args!("building {what}, for Linux {release}"));
            let spinner = this.progress.spin("in the build of KVM");
            let built = tree.build(&changed, build)?;
            drop(spinner);
            prepare::with_modules(board, draft, &kernel, &built)?;
            Ok(MadeEntry::of(format!("{}, {what}", kernel.title)))
        })?;
        Ok(LabKernel::of(&entry, None))
    }

    /// Returns the file of our own module that takes over KVM's ioeventfds, for this kernel. It is built when it is
    /// needed for the first time.
    pub fn kvm_ioeventfd(&mut self, kernel: &LabKernel) -> Result<PathBuf, LabError> {
        let file = format!("{IOEVENTFD}.ko");
        let (sources, release) = self.sources_for(kernel.package())?;
        let text = format!(
            "revision {REVISION}\n{release}\n{}\n{:?}",
            IOEVENTFD_SOURCES.digest(),
            kernel.headers
        );
        let recipe = Recipe::new(ProvisionKind::Modules, text);
        let entry = self.entry(&recipe, |this, draft| {
            let tools = this.kvm_tools(&release, &sources)?;
            let folder = tools.folder().join(TREE);
            let tools = Tools::open(tools.path(""), &release)?;
            let (scratch, release) = (draft.scratch(), kernel.release());
            this.progress
                .say(format_args!("building {file} for Linux {release}"));
            IOEVENTFD_SOURCES.write(&scratch)?;
            match &kernel.headers {
                None => KvmTree::open(folder, &tools, tools.release())?.build_module(&scratch)?,
                Some(headers) => this.build_for_debug_kernel(&tools, headers, &scratch)?,
            }
            let (from, to) = (scratch.join(&file), draft.path(&file));
            fs::copy(&from, to).map_err(cannot("copy", from))?;
            Ok(MadeEntry::of(format!("{file} for Linux {release}")))
        })?;
        Ok(entry.path(file))
    }

    /// Returns the vendor whose module can be built, or an error if the kernel's KVM is not a Debian package's module.
    /// Called before anything is downloaded.
    pub fn require_debians_kvm(&self, named: Option<&KernelChoice>) -> Result<CpuVendor, LabError> {
        let Some(vendor) = self.board.vendor else {
            let arch = self.board.arch.name;
            return Err(failed!(
                "{arch}'s kernels have KVM built in, so the lab cannot replace it: \
                 --kvm-patch, --kvm-source and --kvm-ioeventfd are for x86_64"
            ));
        };
        if let Some(KernelChoice::File { image, .. }) = named {
            return Err(not_debians(image.display()));
        }
        Ok(vendor)
    }

    /// Returns the package sources to build for the kernel of this release.
    pub(super) fn sources_for(&self, name: &str) -> Result<(String, Release), LabError> {
        let architecture = self.board.arch.package;
        debian::build_sources(name, self.host.package, architecture)
            .zip(Release::parse(name, architecture).ok())
            .ok_or_else(|| not_debians(format_args!("Linux {name}")))
    }

    /// Returns the tools to build KVM for the kernel of this release, from these package sources.
    pub(super) fn kvm_tools(
        &mut self,
        release: &Release,
        sources: &str,
    ) -> Result<CacheEntry, LabError> {
        require_programs(self.cache.root())?;
        let text = format!(
            "revision {TOOLS_REVISION}\n{release}\n{}",
            self.host.package
        );
        let recipe = Recipe::new(ProvisionKind::KvmTools, text);
        self.entry(&recipe, |this, draft| {
            require_space(this.cache.root(), DiskSize(SPACE))?;
            let host = this.host;
            let mut from =
                this.debian_packages("KVM's source and compiler", "--kernel", sources)?;
            Tools::unpack(&mut from, host, release, &draft.path(""), &draft.scratch())?;
            Ok(MadeEntry {
                title: format!("compiler, headers and KVM's source for Linux {release}"),
                packages: from.used,
            })
        })
    }
}

fn not_debians(kernel: impl std::fmt::Display) -> LabError {
    failed!(
        "cannot build KVM or a module of it for {kernel}, which is not a kernel of Debian's archive"
    )
    .hint("choose one with --kernel debian:6.12")
}
