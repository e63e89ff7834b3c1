//! `cargo xtask package`: a Debian package of the command, and a test of it in a clean root.
//!
//! The package has the release build without paths of this machine, completions, manual pages, the units of `deploy/` and a
//! list of what is linked into the program. With `--twice` all of it is built again in another folder and compared byte
//! by byte.

mod chroot;
mod deb;
mod sbom;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{artifacts, release};

/// Makes the package and installs it in a clean root.
pub(super) fn run() -> Result<()> {
    let package = make(artifacts::root())?;
    chroot::test(&package)?;
    println!("{}", package.display());
    Ok(())
}

/// Builds the program alone, and prints its path.
pub(super) fn run_program() -> Result<()> {
    println!("{}", release::program()?.display());
    Ok(())
}

/// Makes the package from this folder and from a clone of it in another one, which have to be the same.
pub(super) fn run_twice() -> Result<()> {
    let folder = artifacts::root().join("target/package");
    let first = make(artifacts::root())?;
    let other = tempfile::Builder::new().prefix("vmbell-other-").tempdir()?;
    let clone = other.path().join("a folder of another name");
    let status = Command::new("git")
        .args(["clone", "--quiet", "--no-local"])
        .arg(artifacts::root())
        .arg(&clone)
        .status()
        .context("cannot run git")?;
    ensure!(status.success(), "cannot clone the repository: git failed");
    let second = make(&clone)?;
    for path in [folder.join("tree/usr/bin/vmbell"), first] {
        let same = match path.extension() {
            Some(_) => second.clone(),
            None => clone.join("target/package/tree/usr/bin/vmbell"),
        };
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        ensure!(
            read(&path)? == read(&same)?,
            "{} is another one when it is built elsewhere",
            path.display()
        );
        println!("the same bytes from both folders: {}", path.display());
    }
    Ok(())
}

/// Makes the package of the sources in `root`, in its `target/package`.
fn make(root: &Path) -> Result<PathBuf> {
    let folder = &root.join("target/package");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let built = release::build(root)?;
    let tree = tree::lay_out(root, &folder.join("tree"), &built)?;
    deb::pack(folder, &tree, &built)
}

/// Runs a program and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed what is no UTF-8"))
}
