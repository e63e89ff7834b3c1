//! Builds the rings in C, if the feature `c` is on: with hooks for `cargo vmbell-check`, and without for native runs.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-env-changed=VMBELL_CHECK");
    if env::var_os("CARGO_FEATURE_C").is_none() {
        return;
    }
    // A folder that outlives the target folder spares the downloads.
    println!("cargo::rerun-if-env-changed=VMBELL_SUBJECTS_C");
    let own = || PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("c");
    let out = env::var_os("VMBELL_SUBJECTS_C").map_or_else(own, PathBuf::from);
    let status = Command::new("c/build.sh").arg(&out).status();
    let status = status.expect("c/build.sh starts");
    assert!(
        status.success(),
        "c/build.sh failed: it says above what it needs"
    );
    let package = fs::read_to_string(out.join("linux/extracted")).expect("c/build.sh writes it");
    let version = package.trim().trim_start_matches("linux-source-");
    println!("cargo::rustc-env=VMBELL_SUBJECTS_LINUX={version}");
    let hooked = env::var_os("VMBELL_CHECK").is_some();
    println!("cargo::rustc-link-search=native={}", out.display());
    println!(
        "cargo::rustc-link-lib=static={}",
        if hooked {
            "subjects"
        } else {
            "subjects-native"
        }
    );
}
