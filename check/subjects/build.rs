//! Makes the mutants of vmbell's combiner. With the feature `c`, also builds the rings in C: with hooks for `cargo
//! vmbell-check`, and without hooks for native runs.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    combiners();
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-env-changed=VMBELL_CHECK");
    if env::var_os("CARGO_FEATURE_C").is_none() {
        return;
    }
    // A folder that outlives the target folder avoids repeated downloads.
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

/// Writes a module for the combiner of vmbell's virtio queues as it is, and one for each listed change. A change has a
/// description, perhaps why it is equivalent, and lines as in a diff: those with `-` are in the source once.
fn combiners() {
    const SOURCE: &str = "../../crates/devices/src/virtio/combiner.rs";
    const CHANGES: &str = "tests/mutants/combiner.txt";
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed={CHANGES}");
    let [source, changes] =
        [SOURCE, CHANGES].map(|path| fs::read_to_string(path).expect("it is in the repository"));
    let module = |name: &str, text: &str| {
        format!("#[allow(dead_code)]\nmod {name} {{\n{text}\nrig!();\n}}\n")
    };
    let mut code = module("unchanged", &source);
    let mut table = String::new();
    for (number, change) in changes.split("\n\n").enumerate() {
        let what = change.lines().next().unwrap_or_default();
        let side = |sign: char| -> String {
            let lines = change.lines().filter_map(|line| line.strip_prefix(sign));
            lines.map(|line| format!("{line}\n")).collect()
        };
        let (old, new) = (side('-'), side('+'));
        assert_eq!(source.matches(&old).count(), 1, "{what}: {old}");
        let name = format!("mutant_{number}");
        code += &module(&name, &source.replace(&old, &new));
        let reason = change.lines().find_map(|line| line.strip_prefix("= "));
        let reason = reason.map_or_else(String::new, |reason| format!("{reason:?}"));
        table += &format!("({what:?}, Fate::new(&[{reason}]), {name}::explore),\n");
    }
    code += &format!("const COMBINERS: &[(&str, Fate, Explore)] = &[\n{table}];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("combiners.rs"), code).expect("cargo's folder can be written");
}
