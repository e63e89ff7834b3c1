//! Debian's packages, which `package` and `page` install on this machine when they run as root.

use std::fs::{self, File};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use vmbell_lab::arch::Arch;

/// This machine's release of Debian.
#[derive(Debug)]
pub(crate) struct DebianRelease {
    /// The release's code name, which also names the folder of its packages.
    pub(crate) suite: String,
    /// The architecture.
    pub(crate) arch: Arch,
}

/// Returns the Debian release of this machine.
pub(crate) fn release() -> Result<DebianRelease> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let suite = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no Debian release")?;
    Ok(DebianRelease {
        suite: suite.to_owned(),
        arch: Arch::host().context("Debian does not exist for this architecture")?,
    })
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// Installs a package as root, after an update of the package lists, which may be old or missing on a new machine.
pub(crate) fn install(package: &str) -> Result<()> {
    eprintln!("xtask: installing {package}");
    // apt-get does not wait for a second apt-get, which a step running at the same time may have started.
    let lock = File::create(std::env::temp_dir().join("vmbell-apt.lock"));
    let _locked = lock
        .and_then(|lock| lock.lock().map(|()| lock))
        .context("cannot wait for another apt-get")?;
    for arguments in [
        &["update", "--quiet"][..],
        &[
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            package,
        ],
    ] {
        let status = Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .with_context(|| format!("no apt-get to install {package}: put it on PATH"))?;
        ensure!(
            status.success(),
            "cannot install {package}: apt-get {} failed: {status}",
            arguments[0]
        );
    }
    Ok(())
}
