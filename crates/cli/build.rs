//! Tells the program which revision it is built from, for its reports.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Changes with every commit and every switch of branches. Both fail outside of a repository,
    // e.g. in an unpacked source archive: then reports name no revision.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=VMBELL_GIT={revision}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
