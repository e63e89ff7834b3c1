//! The cache entry of modules that are built for one kernel of the distribution.

use std::path::PathBuf;

use super::recipe::{ProvisionKind, Recipe};
use super::{MadeEntry, Provision};
use crate::cache::{DiskSize, require_programs, require_space};
use crate::error::LabError;
use crate::out_of_tree::{self, Architectures, MODULES};

/// Increase this number when the way of building changes.
const REVISION: u32 = 1;
/// Peak disk space of a build: the compiler, the headers and the source archive.
const SPACE: u64 = 600_000_000;

impl Provision<'_> {
    /// Returns the modules of [`out_of_tree`] for the kernel of this release (`uname -r`), in load order. They are
    /// built when they are needed for the first time.
    pub fn modules(&mut self, release: &str) -> Result<Vec<PathBuf>, LabError> {
        let architectures = Architectures {
            host: self.host.package,
            kernel: self.board.arch.package,
        };
        out_of_tree::check(release, architectures.kernel)?;
        let text = format!(
            "revision {REVISION}\n{release}\n{architectures:?}\n{}",
            out_of_tree::digest()
        );
        let recipe = Recipe::new(ProvisionKind::Modules, text);
        let entry = self.entry(&recipe, |this, draft| {
            require_programs(this.cache.root())?;
            require_space(this.cache.root(), DiskSize(SPACE))?;
            let progress = this.progress;
            let mut from = this.system_packages("a kernel's headers", "--kernel")?;
            progress.say(format_args!("building modules for Linux {release}"));
            let (scratch, target) = (draft.scratch(), draft.path(""));
            out_of_tree::build(&mut from, architectures, release, &scratch, &target)?;
            Ok(MadeEntry {
                title: format!("modules for Linux {release}"),
                packages: from.used,
            })
        })?;
        let path = |name: &&str| entry.path(format!("{name}.ko"));
        Ok(MODULES.iter().map(path).collect())
    }
}
