//! The modules of the running kernel in `/lib/modules/RELEASE`, from the indexes that depmod writes.

use std::path::PathBuf;

use super::files::{self, Host};

/// Whether a driver that the kernel does not have can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// The driver's module is installed and not loaded.
    NotLoaded,
    /// The kernel's modules are installed, without one of this name.
    NotBuilt {
        /// The kernel.
        release: String,
    },
    /// There are no modules of this kernel.
    NoModules {
        /// The kernel.
        release: String,
    },
}

pub(super) struct Modules {
    folder: PathBuf,
    release: String,
}

impl Host {
    pub(super) fn modules(&self) -> Modules {
        let release = files::text(&self.proc("sys/kernel/osrelease"));
        let release = release.unwrap_or_else(|| "of this host".to_owned());
        Modules {
            folder: self.lib_modules(&release),
            release,
        }
    }
}

impl Modules {
    fn index(&self, name: &str) -> Option<String> {
        files::long_text(&self.folder.join(name))
    }

    /// Whether a module that is not loaded is installed.
    pub(super) fn state(&self, module: &str) -> ModuleState {
        let release = self.release.clone();
        let Some(index) = self.index("modules.dep") else {
            return ModuleState::NoModules { release };
        };
        let same = |name: &str| name.replace('_', "-") == module;
        let is_there = index.lines().any(|line| {
            let path = line.split(':').next().unwrap_or_default();
            let file = path.rsplit('/').next().unwrap_or_default();
            // `.ko`, `.ko.xz` and so on.
            file.split_once(".ko").is_some_and(|(name, _)| same(name))
        });
        if is_there {
            ModuleState::NotLoaded
        } else {
            ModuleState::NotBuilt { release }
        }
    }

    /// Reads the aliases of all modules, including built-in ones; `None` if there is no index.
    pub(super) fn aliases(&self) -> Option<Vec<(String, String)>> {
        let index = self.index("modules.alias")?;
        let mut aliases: Vec<_> = index
            .lines()
            .filter_map(|line| {
                let (alias, module) = line.strip_prefix("alias ")?.rsplit_once(' ')?;
                Some((alias.to_owned(), module.to_owned()))
            })
            .collect();
        let built_in = self.index("modules.builtin.modinfo").unwrap_or_default();
        aliases.extend(built_in.split('\0').filter_map(|line| {
            let (module, alias) = line.split_once(".alias=")?;
            Some((alias.to_owned(), module.to_owned()))
        }));
        Some(aliases)
    }
}
