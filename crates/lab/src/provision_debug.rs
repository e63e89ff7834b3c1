//! The cache entry of a kernel that checks itself, and our own module for it.

use std::fs;
use std::path::Path;

use super::super::arch::Arch;
use super::super::cache::{Size, hash_bytes, require_space};
use super::super::debug_kernel::{CONFIG, DebugKernel, DebugKernelError, SUFFIX, arguments};
use super::super::kernel::{KernelImage, ModuleTree};
use super::super::kvm::Tools;
use super::super::out_of_tree::Make;
use super::modules::FromApt;
use super::{Kernel, KernelChoice, LabError, Provision, prepare};
use crate::FileError;

const KIND: &str = "debug";
/// Raised when the way of building changes.
const REVISION: u32 = 1;
/// Peak disk space: the source, packed and unpacked, and what is built.
const SPACE: u64 = 4_000_000_000;

impl Provision<'_> {
    /// The kernel that the user names, built from its source with checks of itself: lockdep, RCU's, KASAN and kmemleak.
    pub fn debug_kernel(&mut self, named: Option<&KernelChoice>) -> Result<Kernel, LabError> {
        self.require_debians_kvm(named)?;
        if self.host != Arch::X86_64 {
            let arch = self.host.name;
            return Err(DebugKernelError::Host { arch }.into());
        }
        let package = self.kernel(named)?;
        let name = package.release().to_owned();
        let (sources, release) = self.sources_for(&name)?;
        let board = self.board;
        let recipe = format!(
            "revision {REVISION}\n{}\n{CONFIG}\n{:?}",
            package.title, board.modules
        );
        let hash = hash_bytes(recipe.as_bytes());
        if let Some(entry) = self.begin(KIND, &hash)? {
            return Ok(Kernel::of(&entry, None));
        }
        let tools_entry = self.kvm_tools(&release, &sources)?;
        let tools = Tools::open(tools_entry.path(""), &release)?;
        let packages = tools_entry.manifest().packages.iter();
        let source = packages
            .map(|package| package.file.as_str())
            .find_map(|file| tools.source_package(file))
            .ok_or_else(|| DebugKernelError::NoVersion {
                release: name.clone(),
            })?;
        require_space(self.cache.root(), Size(SPACE))?;
        let apt = self.debian_apt("a kernel's source", "--kernel", &sources)?;
        let draft = self.draft(KIND, &hash)?;
        let scratch = draft.scratch();
        fs::create_dir_all(&scratch).map_err(FileError::of("make", &scratch))?;
        let build = DebugKernel {
            release: &release,
            tools: &tools,
            host: self.host,
            scratch: &scratch,
        };
        let mut packages = FromApt::new(&apt, self.progress);
        build.unpack(&mut packages, &source)?;
        self.progress.say(format_args!(
            "building Linux {release}{SUFFIX} with lockdep, KASAN and kmemleak, which takes 10 to 30 minutes"
        ));
        let (image, modules) = build.build(self.progress)?;
        let image = KernelImage::read(&image, board.arch.name)?;
        let tree = ModuleTree::open(&modules, &name)?;
        prepare::kernel(board, &draft, &image, Some(&tree))?;
        prepare::keep_modules(&draft, &modules)?;
        build.headers(&draft.path(prepare::HEADERS))?;
        let title = package.title.replacen(&name, &format!("{name}{SUFFIX}"), 1);
        let entry = draft.commit(title, packages.used)?;
        apt.forget(&entry.manifest().packages);
        self.progress.say(format_args!(
            "{} is ready, {}",
            entry.manifest().title,
            Size(entry.manifest().size())
        ));
        Ok(Kernel::of(&entry, None))
    }

    /// Builds the module in `folder` for a debug kernel, against the headers that its build has left.
    pub(super) fn build_for_debug_kernel(
        &self,
        tools: &Tools,
        headers: &Path,
        folder: &Path,
    ) -> Result<(), LabError> {
        Ok(Make {
            release: tools.release(),
            folder: headers,
            log: &folder.join("make.log"),
            bin: &tools.bin(),
            environment: &[],
            arguments: &arguments(tools),
        }
        .modules(folder)?)
    }
}
