//! Tells the program the git revision that it is built from, which its reports name.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // This file changes with every commit and every switch of branches. Both calls of git fail outside
    // of a repository, e.g. in an unpacked source archive; reports then name no revision.
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
