//! Passes facts about the build to the program: the git revision for reports, its date for manual pages, and the
//! compiler and target for `vmbell --version`. None of these depend on the time or place of the build.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The file in which cargo notes a package's revision.
const VCS_INFO: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    watch(VCS_INFO);
    // This file changes with every commit and every switch of branches. Outside a repository, e.g. in an unpacked
    // source archive, both calls of git fail, and reports name no revision.
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        watch(&log);
    }
    if let Some(revision) =
        packaged().or_else(|| output("git", &["rev-parse", "--short=12", "HEAD"]))
    {
        println!("cargo::rustc-env=VMBELL_GIT={revision}");
    }
    if !Path::new(VCS_INFO).exists()
        && let Some(date) = output("git", &["log", "-1", "--format=%cs"])
    {
        println!("cargo::rustc-env=VMBELL_DATE={date}");
    }
    let rustc = env::var("RUSTC").ok();
    let rustc = rustc.and_then(|rustc| output(&rustc, &["--version"]));
    let rustc = rustc.unwrap_or_else(|| "unknown rustc".to_owned());
    println!("cargo::rustc-env=VMBELL_RUSTC={rustc}");
    for (name, variable) in [("TARGET", "VMBELL_TARGET"), ("PROFILE", "VMBELL_PROFILE")] {
        println!("cargo::rerun-if-env-changed={name}");
        let value = env::var(name).unwrap_or_default();
        println!("cargo::rustc-env={variable}={value}");
    }
}

/// Runs this build script again if a file changes. Cargo treats a missing file as changed, and would then compile the
/// whole crate in each build.
fn watch(file: &str) {
    if Path::new(file).exists() {
        println!("cargo::rerun-if-changed={file}");
    }
}

/// The revision that cargo noted in a package. A repository around the package is a different one.
fn packaged() -> Option<String> {
    let text = fs::read_to_string(VCS_INFO).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let revision = rest.split('"').nth(1)?;
    let is_revision = revision.len() >= 12 && revision.chars().all(|c| c.is_ascii_hexdigit());
    is_revision.then(|| revision[..12].to_owned())
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
