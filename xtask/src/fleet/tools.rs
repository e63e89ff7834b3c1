//! Prometheus, promtool and node_exporter: the distribution's packages, unpacked in the user's cache without root.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cache;
use crate::debian::{self, Release};
use vmbell_lab::apt::Apt;

const PACKAGES: [&str; 2] = ["prometheus", "prometheus-node-exporter"];

/// The folder with the packages' files.
#[derive(Debug)]
pub(super) struct Tools(PathBuf);

impl Tools {
    /// Downloads and unpacks the packages, once for each user: about 23 MB.
    pub(super) fn ready() -> Result<Self> {
        let release = debian::release()?;
        let name = format!("prometheus-{}-{}", release.suite, release.arch.package);
        let files = cache::entry(&name, |files| {
            fetch(&release, files).context("cannot fetch Prometheus")
        })?;
        Ok(Self(files))
    }

    /// The path of one of the programs.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join("usr/bin").join(name)
    }
}

fn fetch(release: &Release, to: &Path) -> Result<()> {
    let host = release.arch;
    let folder = TempDir::new().context("cannot make a folder for apt")?;
    let mut apt = Apt::new(
        folder.path(),
        host.package,
        host.package,
        "Prometheus",
        "no option",
    )?;
    apt.update(|| eprintln!("fleet: no answer from the package sources yet"))?;
    for name in PACKAGES {
        let (name, package) = apt.resolve_alone(host.package, &[name])?;
        let package = [package];
        apt.download_alone(&name, &package)?;
        apt.unpack(&package[0], to)?;
        apt.forget(&package);
    }
    Ok(())
}
