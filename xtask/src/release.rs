//! The release build, which does not depend on where and when it is made. The package and the other tasks use the same
//! program, so that it is built only once.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifacts;
use crate::package::output;

/// The program, and the data for its package.
#[derive(Debug)]
pub(crate) struct BuiltProgram {
    /// The program, with symbols.
    pub(crate) program: PathBuf,
    /// cargo's folder, which contains the program.
    pub(crate) target: PathBuf,
    /// The program's version.
    pub(crate) version: String,
    /// The time of the last commit, in seconds since 1970. All files in the package get this time.
    pub(crate) epoch: String,
    /// The packager: DEBFULLNAME and DEBEMAIL, as for Debian's own tools.
    pub(crate) maintainer: String,
}

/// Builds this workspace's command, and returns the program.
pub(crate) fn program() -> Result<PathBuf> {
    Ok(build(artifacts::root())?.program)
}

/// Builds the command from the sources in `root`, below `target/package` of `root`.
pub(crate) fn build(root: &Path) -> Result<BuiltProgram> {
    let target = root.join("target/package/build");
    let git = |words: &[&str]| output(Command::new("git").current_dir(root).args(words));
    let epoch = git(&["log", "-1", "--format=%ct"])?.trim().to_owned();
    let status = Command::new(artifacts::cargo_program())
        .current_dir(root)
        .args([
            "build",
            "--release",
            "--locked",
            "--bin",
            "vmbell",
            "--target-dir",
        ])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags()?)
        .env("SOURCE_DATE_EPOCH", &epoch)
        // Debug information contains paths, and the linker's build ID is a hash that includes it.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env_remove("CARGO_INCREMENTAL")
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo build --release failed");
    let program = target.join("release/vmbell");
    let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    let path = root.as_os_str().as_bytes();
    ensure!(
        !bytes.windows(path.len()).any(|window| window == path),
        "{} has the path {} in it",
        program.display(),
        root.display()
    );
    Ok(BuiltProgram {
        program,
        target,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch,
        maintainer: maintainer(),
    })
}

fn maintainer() -> String {
    let or = |name: &str, none: &str| env::var(name).unwrap_or_else(|_| none.to_owned());
    let (name, address) = (
        or("DEBFULLNAME", "vmbell"),
        or("DEBEMAIL", "vmbell@localhost"),
    );
    format!("{name} <{address}>")
}

/// Returns the flags that keep the path of cargo's registry out of the program. The workspace's path needs no flag:
/// cargo passes rustc relative paths. With such a flag, another clone would have to compile all dependencies again.
fn flags() -> Result<String> {
    let home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(env::var_os("HOME").context("there is no HOME")?).join(".cargo"),
    };
    Ok(format!("--remap-path-prefix={}=/cargo", home.display()))
}
