//! The public API of the libraries as text, one item per line, so that changes are visible in review.
//!
//! rustdoc writes the API as JSON, in a format that differs with each release of Rust. So the release in Cargo.toml's
//! `rust-version` is used, which the crate public-api has to match.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::artifacts;
use crate::package::output;

/// The packages that other projects depend on, and the packages that these are made of.
const LIBRARIES: [&str; 10] = [
    "vmbell",
    "vmbell-check",
    "vmbell-core",
    "vmbell-devices",
    "vmbell-guest",
    "vmbell-hypervisor",
    "vmbell-usermode",
    "vmbell-vfio",
    "vmbell-virtqueue",
    "vmbell-vmm",
];

/// Parts of lines that tell a caller nothing: traits that nearly every type has, and methods of a trait whose `impl` is
/// already listed.
const USUAL: [&str; 11] = [
    "::Freeze for ",
    "::RefUnwindSafe for ",
    "::StructuralPartialEq for ",
    "::Unpin for ",
    "::UnwindSafe for ",
    "::clone(&self)",
    "::deserialize<",
    "::eq(&self, ",
    "::fmt(&self, ",
    "::hash<",
    "::serialize<",
];

/// Writes one file per library to `folder`.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let root = artifacts::root();
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let target = root.join("target/msrv");
    document(root, &target)?;
    for name in LIBRARIES {
        let json = target.join(format!("doc/{}.json", name.replace('-', "_")));
        let api = public_api::Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .build()
            .with_context(|| format!("cannot read {}", json.display()))?;
        let mut text = String::new();
        for item in api.items() {
            let line = item.to_string();
            if !USUAL.iter().any(|usual| line.contains(usual)) {
                writeln!(text, "{line}")?;
            }
        }
        let file = folder.join(format!("{name}.txt"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Makes rustdoc write the JSON of all libraries.
fn document(root: &Path, target: &Path) -> Result<()> {
    let version = rust_version(&fs::read_to_string(root.join("Cargo.toml"))?)?;
    // Only rustdoc may use unstable options: if cargo's environment allowed them, build scripts would run again.
    let rustdoc = target.join("rustdoc.sh");
    fs::create_dir_all(target)?;
    fs::write(
        &rustdoc,
        "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n",
    )?;
    fs::set_permissions(&rustdoc, Permissions::from_mode(0o755))?;
    let mut cargo = Command::new("rustup");
    cargo.current_dir(root).env_remove("RUSTUP_TOOLCHAIN");
    cargo.args(["run", &version, "cargo", "doc", "--locked", "--quiet"]);
    cargo
        .args(["--no-deps", "--lib", "--target-dir"])
        .arg(target);
    cargo.args(LIBRARIES.iter().flat_map(|name| ["--package", *name]));
    cargo.args(["--features", "vmbell-virtqueue/serde"]);
    cargo.env("RUSTDOC", &rustdoc);
    cargo.env(
        "RUSTDOCFLAGS",
        "-Z unstable-options --output-format json --cap-lints allow",
    );
    output(&mut cargo).map(drop)
}

/// Returns the oldest Rust that compiles the libraries.
fn rust_version(manifest: &str) -> Result<String> {
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    version
        .map(str::to_owned)
        .context("Cargo.toml has no rust-version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_version_is_that_of_the_workspace() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.90\"\n";
        assert_eq!(rust_version(manifest).unwrap(), "1.90");
        assert!(rust_version("[workspace]\n").is_err());
    }
}
