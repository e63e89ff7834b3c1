//! The cache entries of QEMU, of the device tree for it, and of a shell for L1.

use std::path::{Path, PathBuf};

use super::recipe::{PackageRecipe, ProvisionKind, Recipe};
use super::{MadeEntry, Provision};
use crate::boot::Settings;
use crate::cache::require_programs;
use crate::error::LabError;
use crate::qemu::Qemu;
use crate::{prepare, tree};

impl Provision<'_> {
    /// Returns the QEMU that the user names, otherwise the one on PATH, otherwise the one in a package.
    pub fn qemu(&mut self, named: Option<&Path>) -> Result<Qemu, LabError> {
        if let Some(program) = named {
            return Qemu::named(program, self.board);
        }
        if let Some(qemu) = Qemu::on_path(self.board) {
            return Ok(qemu);
        }
        require_programs(self.cache.root())?;
        let (host, board) = (self.host, self.board);
        let entry = self.package_entry(&PackageRecipe::qemu(host, board), |draft| {
            prepare::qemu(host, board, draft)
        })?;
        Qemu::packaged(host, board, &entry)
    }

    /// Returns a static shell that has all its commands in one file. With `optional` nothing is downloaded, so the
    /// result may be `None`.
    pub fn shell(&mut self, optional: bool) -> Result<Option<PathBuf>, LabError> {
        let packages = PackageRecipe::shell(self.board);
        let entry = match optional {
            true => self.existing(&packages.recipe())?,
            false => Some(self.package_entry(&packages, prepare::shell)?),
        };
        Ok(entry.map(|entry| entry.path(prepare::SHELL)))
    }

    /// Returns the device tree for a machine that QEMU's own tree does not fit; `None` if it fits.
    pub fn tree(&mut self, qemu: &Qemu, settings: &Settings) -> Result<Option<PathBuf>, LabError> {
        if tree::masters(settings).next().is_none() {
            return Ok(None);
        }
        let board = self.board;
        let recipe = Recipe::new(ProvisionKind::Tree, tree::recipe(qemu, board, settings));
        let entry = self.entry(&recipe, |_, draft| {
            Ok(MadeEntry::of(tree::make(qemu, board, settings, draft)?))
        })?;
        Ok(Some(entry.path(tree::TREE)))
    }
}
