//! The cache entries of Bochs, of its firmware, and of a kernel for its CPU.

use std::path::Path;

use super::recipe::{ProvisionKind, Recipe};
use super::{KernelChoice, MadeEntry, Provision};
use crate::board::X86_64;
use crate::bochs::{self, Bochs};
use crate::cache::{CacheEntry, DiskSize, require_programs, require_space};
use crate::debian;
use crate::error::{LabError, failed};
use crate::prepare::{self, LabKernel};

/// Increase this number when the way of building changes.
const REVISION: u32 = 1;
/// Peak disk space: the compiler, packed and unpacked, the source and the objects.
const SPACE: u64 = 700_000_000;

impl Provision<'_> {
    /// Returns the Bochs that the user names, otherwise the one that the lab builds.
    pub fn bochs(&mut self, named: Option<&Path>) -> Result<Bochs, LabError> {
        if let Some(program) = named {
            bochs::check(program)?;
            return Ok(Bochs::named(program, &self.firmware_entry()?));
        }
        require_programs(self.cache.root())?;
        let entry = self.bochs_entry()?;
        Ok(Bochs::built(&entry, &self.firmware_entry()?))
    }

    fn firmware_entry(&mut self) -> Result<CacheEntry, LabError> {
        let host = self.host;
        let text = format!(
            "revision {REVISION}\n{}\n{}",
            host.package,
            bochs::build::firmware_recipe()
        );
        let recipe = Recipe::new(ProvisionKind::Firmware, text);
        self.entry(&recipe, |this, draft| {
            let sources = debian::release_sources(bochs::build::RELEASE, &[host.package]);
            let mut from = this.debian_packages("Bochs's firmware", None, &sources)?;
            bochs::build::take_firmware(&mut from, host, &draft.scratch(), &draft.path(""))?;
            Ok(MadeEntry {
                title: "the firmware for Bochs".to_owned(),
                packages: from.used,
            })
        })
    }

    fn bochs_entry(&mut self) -> Result<CacheEntry, LabError> {
        let host = self.host;
        let text = format!(
            "revision {REVISION}\n{}\n{}",
            host.package,
            bochs::build::recipe()
        );
        let recipe = Recipe::new(ProvisionKind::Bochs, text);
        self.entry(&recipe, |this, draft| {
            require_space(this.cache.root(), DiskSize(SPACE))?;
            let progress = this.progress;
            let release = bochs::build::RELEASE;
            let sources = debian::release_sources(release, &[host.package])
                + &debian::source_packages(release);
            let mut from = this.debian_packages("Bochs", "--bochs", &sources)?;
            let build = bochs::build::Build {
                host,
                scratch: &draft.scratch(),
                progress,
            };
            let archive = from.source("bochs")?;
            let (version, source) = (bochs::VERSION, bochs::build::SOURCE);
            let name = archive.file_name().unwrap_or_default().to_string_lossy();
            if name != source {
                return Err(failed!(
                    "Debian's {release} has {name}, and the lab's changes are for {source}"
                ));
            }
            build.unpack(&mut from)?;
            progress.say(format_args!(
                "building Bochs {version}, which takes about two minutes of CPU, once"
            ));
            build.build(&archive, &draft.path(""))?;
            Ok(MadeEntry {
                title: format!("Bochs {version} with the lab's changes"),
                packages: from.used,
            })
        })
    }

    /// Returns a kernel of the other x86-64 board with the first modules of this board.
    pub(super) fn kernel_for_vmx(
        &mut self,
        named: Option<&KernelChoice>,
    ) -> Result<LabKernel, LabError> {
        let board = std::mem::replace(&mut self.board, &X86_64);
        let kernel = self.kernel(named);
        self.board = board;
        let kernel = kernel?;
        let text = format!(
            "revision {REVISION}\n{}\n{}\n{:?}",
            kernel.title,
            kernel.image.display(),
            board.modules
        );
        let recipe = Recipe::new(ProvisionKind::Vmx, text);
        let entry = self.entry(&recipe, |_, draft| {
            prepare::with_modules(board, draft, &kernel, &[])?;
            Ok(MadeEntry::of(kernel.title.clone()))
        })?;
        Ok(LabKernel::of(&entry, None))
    }
}
