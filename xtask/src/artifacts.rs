//! Runs cargo builds, and finds the files that they make.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The fields that are used of a line of `--message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<BuildTarget>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct BuildTarget {
    name: String,
    kind: Vec<String>,
}

/// A test binary of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct TestBinary {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// The executables that one build made.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    /// The `vmbell` command; empty if it was not built.
    pub(crate) vmbell: PathBuf,
    /// All test binaries of the workspace.
    pub(crate) tests: Vec<TestBinary>,
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Returns the cargo that runs this task.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Builds what `cargo test --workspace` builds, with the same options, so that nothing is built twice.
pub(crate) fn tests() -> Result<Artifacts> {
    build(&["test", "--workspace", "--no-run"], &[])
}

/// Builds one test binary of the command's package, and the command.
pub(crate) fn test_of_the_command(name: &str) -> Result<Artifacts> {
    // Naming the whole workspace gives the dependencies the same features as in [`tests`]. With other features, they
    // would be built again.
    build(&["test", "--workspace", "--test", name, "--no-run"], &[])
}

/// Overrides of the `release` profile: its own settings make compiling slow and gain little under emulation.
const FOREIGN: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

/// Builds the integration tests of `packages`, and the command, for another target with the `release` profile. Unit
/// tests are left out: the few that need KVM do not depend on the architecture.
pub(crate) fn tests_for(target: &str, packages: &[&str]) -> Result<Artifacts> {
    let mut arguments = vec!["test", "--no-run", "--release", "--target", target];
    arguments.extend(["--test", "*"]);
    arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    build(&arguments, &FOREIGN)
}

/// Builds an example for another target with the `release` profile. `packages` are those given to [`tests_for`], so
/// that nothing is built twice.
pub(crate) fn example_for(target: &str, packages: &[&str], name: &str) -> Result<()> {
    let mut arguments = vec!["build", "--release", "--target", target];
    arguments.extend(["--bin", "vmbell", "--example", name]);
    arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    build(&arguments, &FOREIGN).map(drop)
}

/// Runs a build that also makes the command.
fn build(arguments: &[&str], profile: &[(&str, &str)]) -> Result<Artifacts> {
    let artifacts = cargo(arguments, profile)?;
    ensure!(
        artifacts.vmbell.is_file(),
        "cargo {} made no vmbell",
        arguments.join(" ")
    );
    Ok(artifacts)
}

fn cargo(arguments: &[&str], profile: &[(&str, &str)]) -> Result<Artifacts> {
    let output = Command::new(cargo_program())
        .args(arguments)
        .args(["--locked", "--message-format=json-render-diagnostics"])
        .current_dir(root())
        .envs(profile.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed",
        arguments.join(" ")
    );
    let text = String::from_utf8(output.stdout).context("cargo printed what is no UTF-8")?;
    collect(&text)
}

fn collect(text: &str) -> Result<Artifacts> {
    let mut artifacts = Artifacts::default();
    for line in text.lines() {
        let message: Message =
            serde_json::from_str(line).with_context(|| format!("cargo printed {line:?}"))?;
        let (Some(path), Some(profile), Some(target)) =
            (message.executable, message.profile, message.target)
        else {
            continue;
        };
        if profile.test {
            artifacts.tests.push(TestBinary {
                name: target.name,
                path,
            });
        } else if target.name == "vmbell" && target.kind == ["bin"] {
            artifacts.vmbell = path;
        }
    }
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_told_apart() {
        let text = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"vmbell"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"doorbell"},"profile":{"test":true},"executable":"/t/doorbell-1"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"vmbell"},"profile":{"test":true},"executable":"/t/vmbell-2"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"vmbell"},"profile":{"test":false},"executable":"/t/vmbell"}
{"reason":"build-finished","success":true}"#;
        let artifacts = collect(text).unwrap();
        assert_eq!(artifacts.vmbell, Path::new("/t/vmbell"));
        let names: Vec<_> = artifacts
            .tests
            .iter()
            .map(|test| test.name.as_str())
            .collect();
        assert_eq!(names, ["doorbell", "vmbell"]);
    }
}
