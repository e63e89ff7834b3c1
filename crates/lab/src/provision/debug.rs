//! The cache entry of a kernel that checks itself, and our own module for it.

use std::path::Path;

use super::recipe::{ProvisionKind, Recipe};
use super::{KernelChoice, MadeEntry, Provision};
use crate::arch::Arch;
use crate::cache::{DiskSize, require_space};
use crate::debug_kernel::{CONFIG, DebugKernel, SUFFIX, arguments};
use crate::error::{LabError, failed};
use crate::kernel::{KernelImage, ModuleTree};
use crate::kvm::Tools;
use crate::out_of_tree::Make;
use crate::prepare::{self, LabKernel};

/// Increase this number when the way of building changes.
const REVISION: u32 = 1;
/// Peak disk space: the source, packed and unpacked, and the build's output.
const SPACE: u64 = 4_000_000_000;

impl Provision<'_> {
    /// Returns the kernel that the user names, built from its source with lockdep, RCU's checks, KASAN and kmemleak.
    pub fn debug_kernel(&mut self, named: Option<&KernelChoice>) -> Result<LabKernel, LabError> {
        self.require_debians_kvm(named)?;
        if self.host != Arch::X86_64 {
            let arch = self.host.name;
            return Err(failed!(
                "a debug kernel is built on x86_64 only, and this machine is {arch}"
            ));
        }
        let package = self.kernel(named)?;
        let name = package.release().to_owned();
        let (sources, release) = self.sources_for(&name)?;
        let board = self.board;
        let text = format!(
            "revision {REVISION}\n{}\n{CONFIG}\n{:?}",
            package.title, board.modules
        );
        let recipe = Recipe::new(ProvisionKind::Debug, text);
        let entry = self.entry(&recipe, |this, draft| {
            let tools_entry = this.kvm_tools(&release, &sources)?;
            let tools = Tools::open(tools_entry.path(""), &release)?;
            let packages = tools_entry.manifest().packages.iter();
            let source = packages
                .map(|package| package.file.as_str())
                .find_map(|file| tools.source_package(file))
                .ok_or_else(|| {
                    failed!("cannot build Linux {name}: the package of its headers has no version")
                })?;
            require_space(this.cache.root(), DiskSize(SPACE))?;
            let host = this.host;
            let mut from = this.debian_packages("a kernel's source", "--kernel", &sources)?;
            let build = DebugKernel {
                release: &release,
                tools: &tools,
                host,
                scratch: &draft.scratch(),
            };
            build.unpack(&mut from, &source)?;
            let packages = from.used;
            this.progress.say(format_args!(
                "building Linux {release}{SUFFIX} with lockdep, KASAN and kmemleak, which takes 10 to 30 minutes"
            ));
            let (image, modules) = build.build(this.progress)?;
            let image = KernelImage::read(&image, board.arch.name)?;
            let tree = ModuleTree::open(&modules, &name)?;
            prepare::kernel(board, draft, &image, Some(&tree))?;
            prepare::keep_modules(draft, &modules)?;
            build.headers(&draft.path(prepare::HEADERS))?;
            let title = package.title.replacen(&name, &format!("{name}{SUFFIX}"), 1);
            Ok(MadeEntry { title, packages })
        })?;
        Ok(LabKernel::of(&entry, None))
    }

    /// Builds the module in `folder` for a debug kernel, against the headers that were kept from the kernel's build.
    pub(super) fn build_for_debug_kernel(
        &self,
        tools: &Tools,
        headers: &Path,
        folder: &Path,
    ) -> Result<(), LabError> {
        Make {
            release: tools.release(),
            folder: headers,
            log: &folder.join("make.log"),
            bin: &tools.bin(),
            environment: &[],
            arguments: &arguments(tools),
        }
        .modules(folder)
    }
}
