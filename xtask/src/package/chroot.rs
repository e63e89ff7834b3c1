//! A clean Debian root, made once per user, in which the package is installed, run and removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::output;
use crate::{cache, debian};

/// The script for the clean root. It starts with the commands of a user who has just installed the package.
const SCRIPT: &str = r#"
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# dpkg has to be content with what the package says that it needs.
dpkg --install /vmbell.deb
dpkg --listfiles vmbell >/files
vmbell --version
vmbell probe >/dev/null
# Only a hang takes so long, also on a busy host.
vmbell bench --backend usermode --runs 3 --min-time 1ms --run-timeout 10m --style basic portio-datamatch-eventfd
for file in /usr/share/bash-completion/completions/vmbell /usr/share/zsh/vendor-completions/_vmbell \
    /usr/share/fish/vendor_completions.d/vmbell.fish /usr/share/man/man1/vmbell.1.gz \
    /usr/share/man/man1/vmbell-bench.1.gz /usr/lib/systemd/system/vmbell-bench.timer \
    /usr/share/doc/vmbell/copyright /usr/share/doc/vmbell/vmbell.cdx.json; do
    test -s "$file" || { echo "$file is missing" >&2; exit 1; }
done
cd / && md5sum --check --quiet /var/lib/dpkg/info/vmbell.md5sums
dpkg --purge vmbell
while read -r file; do
    case $file in *vmbell*) test ! -e "$file" || { echo "$file is left" >&2; exit 1; } ;; esac
done </files
"#;

/// Installs `package` in a clean root, runs it and removes it.
pub(super) fn test(package: &Path) -> Result<()> {
    let archive = root()?;
    let place = tempfile::Builder::new().prefix("vmbell-root-").tempdir()?;
    let root = place.path();
    output(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(root),
    )?;
    fs::copy(package, root.join("vmbell.deb")).context("cannot copy the package")?;
    // In a new mount namespace, the mounts disappear with its last process.
    let script = format!(
        "set -e; mount -t proc proc '{0}/proc'; mount --rbind /dev '{0}/dev'; mount --rbind /sys '{0}/sys'; \
         exec chroot '{0}' /bin/sh -c \"$1\"",
        root.display()
    );
    let status = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            "sh",
            SCRIPT,
        ])
        .status()
        .context("cannot run unshare")?;
    ensure!(
        status.success(),
        "the package does not work in a clean root: {status}"
    );
    Ok(())
}

/// Returns the archive of a root with the packages that every Debian has.
fn root() -> Result<PathBuf> {
    let debian::DebianRelease { suite, arch } = debian::release()?;
    cache::entry(&format!("root-{suite}-{}.tar", arch.package), |archive| {
        ensure!(
            debian::is_root(),
            "a clean root needs root: run `cargo xtask package` as root"
        );
        if Command::new("mmdebstrap")
            .arg("--version")
            .output()
            .is_err()
        {
            debian::install("mmdebstrap")?;
        }
        eprintln!("package: making a clean root of Debian {suite}, about 40 MB");
        output(
            Command::new("mmdebstrap")
                .args(["--quiet", "--variant=essential", "--format=tar", &suite])
                .arg(archive),
        )
        .map(drop)
    })
}
