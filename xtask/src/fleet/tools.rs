//! Prometheus, promtool and node_exporter: the distribution's packages, unpacked below `target/` without root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::artifacts;
use vmbell_lab::apt::Apt;
use vmbell_lab::arch::Arch;

const PACKAGES: [&str; 2] = ["prometheus", "prometheus-node-exporter"];

/// The folder with the packages' files.
#[derive(Debug)]
pub(super) struct Tools(PathBuf);

impl Tools {
    /// Downloads and unpacks the packages, once for each `target/`: about 23 MB.
    pub(super) fn ready() -> Result<Self> {
        let folder = artifacts::root().join("target/fleet");
        let files = folder.join("files");
        if !files.is_dir() {
            // A folder of another name until all is there.
            let draft = folder.join("draft");
            if draft.is_dir() {
                fs::remove_dir_all(&draft).context("cannot remove an unfinished download")?;
            }
            fs::create_dir_all(&draft).context("cannot make a folder for Prometheus")?;
            fetch(&folder, &draft).context("cannot fetch Prometheus")?;
            fs::rename(&draft, &files).context("cannot keep Prometheus")?;
        }
        Ok(Self(files))
    }

    /// The path of one of the programs.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join("usr/bin").join(name)
    }
}

fn fetch(folder: &Path, to: &Path) -> Result<()> {
    let host = Arch::host().context("Prometheus is not packaged for this architecture")?;
    let mut apt = Apt::new(
        folder,
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
