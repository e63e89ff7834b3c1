//! The cache entry of one of Debian's kernels, which is chosen by its version.

use std::path::Path;

use super::super::apt::Apt;
use super::super::cache::{Size, require_space};
use super::super::debian::{self, DebianError, KernelVersion};
use super::super::out_of_tree::Packages;
use super::modules::FromApt;
use super::{Kernel, LabError, NO_ANSWER, Provision, Recipe, prepare};

/// Peak disk space: the indexes, the packages, unpacked files, and the kernel decompressed.
const SPACE: u64 = 500_000_000;

impl Provision<'_> {
    /// The newest of Debian's kernels of this version. It stays the same until the cache is cleaned.
    pub(super) fn debian_kernel(&mut self, version: &KernelVersion) -> Result<Kernel, LabError> {
        let board = self.board;
        let recipe = Recipe::debian(board, version);
        let (kind, hash) = (recipe.kind, recipe.hash());
        if let Some(entry) = self.begin(kind, &hash)? {
            return Ok(Kernel::of(&entry, None));
        }
        require_space(self.cache.root(), Size(SPACE))?;
        let sources = debian::sources(recipe.architecture);
        let apt = self.debian_apt("a kernel of Debian", recipe.option, &sources)?;
        let names = apt.names(debian::PACKAGES)?;
        let packages = version.packages(&names, recipe.architecture);
        // A version that is missing may be in a suite whose index is.
        let packages =
            packages.map_err(|error| no_indexes(&apt).unwrap_or_else(|| LabError::from(error)))?;
        let draft = self.draft(kind, &hash)?;
        let mut from = FromApt::new(&apt, self.progress);
        for name in &packages {
            from.unpack_alone(recipe.architecture, &[name], &draft.scratch())?;
        }
        let title = prepare::linux(board, &draft)?;
        let entry = draft.commit(format!("{title} ({version})"), from.used)?;
        apt.forget(&entry.manifest().packages);
        self.progress.say(format_args!(
            "{} is ready, {}",
            entry.manifest().title,
            Size(entry.manifest().size())
        ));
        Ok(Kernel::of(&entry, None))
    }

    /// The versions of Debian's kernels that lie between two releases (`uname -r`), in order.
    pub fn debian_between(&mut self, old: &str, new: &str) -> Result<Vec<KernelVersion>, LabError> {
        let architecture = self.board.arch.package;
        self.hold()?;
        let sources = debian::sources(architecture);
        let apt = self.debian_apt("a kernel of Debian", "--kernel", &sources)?;
        let names = apt.names(debian::PACKAGES)?;
        match no_indexes(&apt) {
            Some(error) if names.is_empty() => return Err(error),
            Some(error) => self.progress.say(format_args!(
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

    /// A package client that reads these of Debian's sources instead of the system's, with their indexes.
    pub(super) fn debian_apt(
        &self,
        wanted: &'static str,
        option: &'static str,
        sources: &str,
    ) -> Result<Apt, LabError> {
        let mut apt = Apt::new(
            self.cache.downloads(self.lock())?.join("debian"),
            self.host.package,
            self.board.arch.package,
            wanted,
            option,
        )?;
        apt.read_only(sources)?;
        self.progress
            .say(format_args!("fetching Debian's indexes for {wanted}"));
        apt.update(|| self.progress.say(NO_ANSWER))?;
        Ok(apt)
    }
}

/// Why an index is missing, if one is.
pub(super) fn no_indexes(apt: &Apt) -> Option<LabError> {
    let missing = apt.no_indexes()?;
    Some(match Path::new(debian::KEYRING).exists() {
        true => missing.into(),
        false => DebianError::NoKeyring.into(),
    })
}
