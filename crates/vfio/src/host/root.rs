//! Where the host's files are.

use std::path::{Path, PathBuf};

use super::access::{self, MayOpen};
use super::bus::Bus;
use super::files;
use super::modules::Modules;

/// The host: the folder below which its `/sys`, `/dev`, `/proc` and `/lib/modules` are. Nothing is kept: each call reads
/// anew.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    pub(super) may_open: MayOpen,
    pub(super) user: u32,
}

impl Host {
    /// This host.
    pub fn system() -> Self {
        Self::at("/")
    }

    /// A host whose files are below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            may_open: access::may_open,
            user: rustix::process::geteuid().as_raw(),
        }
    }

    pub(super) fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("sys").join(path)
    }

    pub(super) fn dev(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("dev").join(path)
    }

    pub(super) fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("proc").join(path)
    }

    /// The folder of a bus in sysfs.
    pub(super) fn bus(&self, bus: Bus) -> PathBuf {
        self.sys("bus").join(bus.name())
    }

    pub(super) fn modules(&self) -> Modules {
        Modules {
            folder: self.root.join("lib/modules"),
            release: files::text(&self.proc("sys/kernel/osrelease"))
                .unwrap_or_else(|| "of this host".to_owned()),
        }
    }
}
