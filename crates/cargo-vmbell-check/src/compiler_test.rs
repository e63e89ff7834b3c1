//! Tests of how the wrapper reads a call of rustc.

use std::ffi::OsString;

use super::{CHECKER, Call};

fn call(args: &[&str]) -> Call {
    Call::read(&args.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
}

#[test]
fn options_are_found_in_each_form() {
    for args in [
        &["--crate-name", "a", "--target", "t"][..],
        &["--crate-name=a", "--target=t"],
    ] {
        let call = call(args);
        assert_eq!(call.name(), "a");
        assert!(call.has_target());
    }
    assert!(!call(&["--crate-name", "a", "--target-x"]).has_target());
}

#[test]
fn last_panic_strategy_counts() {
    assert!(call(&["-C", "panic=abort"]).panics_abort());
    assert!(call(&["-C", "panic=unwind", "-Cpanic=abort"]).panics_abort());
    assert!(!call(&["-Cpanic=abort", "-C", "panic=unwind"]).panics_abort());
    assert!(!call(&["-C", "opt-level=1"]).panics_abort());
}

#[test]
fn programs_and_test_harnesses_are_linked() {
    assert!(call(&["--crate-type", "bin"]).links_program());
    assert!(call(&["--test"]).links_program());
    for kind in ["lib", "rlib", "staticlib", "cdylib", "proc-macro"] {
        assert!(!call(&["--crate-type", kind]).links_program());
    }
}

#[test]
fn question_of_cargo_is_told_from_a_crate() {
    assert!(call(&["-", "--crate-name", "___", "--target", "t"]).is_question());
    assert!(!call(&["-", "--crate-name", "___"]).is_question());
    assert!(!call(&["--crate-name", "a", "--target", "t"]).is_question());
}

#[test]
fn arguments_in_a_file_are_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "--crate-name\nfrom_the_file\n--target\nt\n").unwrap();
    let call = call(&[&format!("@{}", file.path().display())]);
    assert_eq!(call.name(), "from_the_file");
    assert!(call.has_target());
    assert!(Call::read(&["@/nowhere/args".into()]).is_err());
}

/// Dependencies of this program that no hook calls.
const PROGRAM: [&str; 1] = ["serde_json"];

#[test]
fn each_dependency_of_the_checker_is_known_to_the_wrapper() {
    let args = [
        "tree",
        "--package",
        "vmbell-check",
        "--edges",
        "normal,no-proc-macro",
        "--no-dedupe",
    ];
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let output = cargo
        .args(args)
        .args(["--prefix", "depth", "--format", " {lib}"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut of_program = false;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let (depth, name) = line.split_once(' ').unwrap();
        if depth == "1" {
            of_program = PROGRAM.contains(&name);
        }
        assert!(
            of_program || CHECKER.contains(&name),
            "{name} is not in CHECKER"
        );
    }
}
