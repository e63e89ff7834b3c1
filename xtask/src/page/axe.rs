//! axe-core, which finds what keeps people from reading a page: fetched once for each user by npm.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;

const VERSION: &str = "4.14.1";

/// The program as text.
pub(super) fn source() -> Result<String> {
    let file = cache::entry(&format!("axe-core-{VERSION}.js"), |file| {
        fetch(file).with_context(|| format!("cannot fetch axe-core {VERSION}"))
    })?;
    fs::read_to_string(&file).context("cannot read axe-core")
}

fn fetch(to: &Path) -> Result<()> {
    // Beside the file, to which it is renamed.
    let folder = to.parent().context("a file has a folder")?;
    let draft = tempfile::tempdir_in(folder)?;
    run(
        Command::new("npm")
            .args(["pack", "--silent", &format!("axe-core@{VERSION}")])
            .current_dir(&draft),
        "install npm, for example by 'apt-get install npm'",
    )?;
    run(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(format!("axe-core-{VERSION}.tgz"))
            .arg("package/axe.min.js")
            .current_dir(&draft),
        "install tar",
    )?;
    fs::rename(draft.path().join("package/axe.min.js"), to)?;
    Ok(())
}

fn run(command: &mut Command, advice: &str) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}: {advice}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
