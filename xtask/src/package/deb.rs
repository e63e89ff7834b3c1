//! Packs the tree with dpkg's own programs, which every Debian has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::output;
use crate::release::Built;

/// Packs `tree` and returns the package.
pub(super) fn pack(folder: &Path, tree: &Path, built: &Built) -> Result<PathBuf> {
    let arch = output(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = arch.trim();
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let text = format!(
        "Package: vmbell\n\
         Version: {}\n\
         Architecture: {arch}\n\
         Maintainer: {}\n\
         Section: utils\n\
         Priority: optional\n\
         Depends: {}\n\
         Suggests: qemu-system-x86\n\
         Description: cost of each notification path between a guest and its host\n \
         vmbell measures what it costs a guest and its host to tell each other\n \
         that there is something to do: exits, ioeventfds, irqfds, virtqueues\n \
         and their alternatives, with KVM where it is there and with an engine\n \
         of its own where it is not.\n",
        built.version,
        built.maintainer,
        depends(folder, tree)?,
    );
    fs::write(control.join("control"), text).context("cannot write the control file")?;
    fs::write(control.join("md5sums"), sums(tree)?).context("cannot write the checksums")?;
    open_folders(tree)?;
    let package = folder.join(format!("vmbell_{}_{arch}.deb", built.version));
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(tree)
            .arg(&package)
            .env("SOURCE_DATE_EPOCH", &built.epoch),
    )?;
    fs::copy(
        tree.join("usr/share/doc/vmbell/vmbell.cdx.json"),
        folder.join("vmbell.cdx.json"),
    )?;
    Ok(package)
}

/// What the program links to, as dpkg names it.
fn depends(folder: &Path, tree: &Path) -> Result<String> {
    // dpkg-shlibdeps wants to be in the sources of a Debian package.
    let sources = folder.join("sources");
    fs::create_dir_all(sources.join("debian"))?;
    fs::write(
        sources.join("debian/control"),
        "Source: vmbell\n\nPackage: vmbell\nArchitecture: any\n",
    )?;
    let program = fs::canonicalize(tree.join("usr/bin/vmbell"))?;
    let text = output(
        Command::new("dpkg-shlibdeps")
            .arg("-O")
            .arg(program)
            .current_dir(&sources),
    )
    .context(
        "cannot find out what the program links to (dpkg-shlibdeps is in the package dpkg-dev)",
    )?;
    let depends = text.trim().strip_prefix("shlibs:Depends=");
    Ok(depends.context("dpkg-shlibdeps said nothing")?.to_owned())
}

/// The checksums of all files, sorted by name.
fn sums(tree: &Path) -> Result<String> {
    output(
        Command::new("sh")
            .args(["-c", "find usr -type f | LC_ALL=C sort | xargs md5sum"])
            .current_dir(tree),
    )
}

/// Gives all folders the rights that Debian's have, whatever the umask was.
fn open_folders(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            open_folders(&path)?;
        }
    }
    Ok(())
}
