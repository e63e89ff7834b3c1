//! `cargo xtask` from outside: its help and errors. `cargo test` builds its program, which `.ci/run` then uses.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).output().unwrap()
}

#[test]
fn help_names_every_task_on_one_line() {
    let output = xtask(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    for task in ["lab", "outputs", "fleet", "package", "page", "words"] {
        let named = format!("\n  {task} ");
        assert!(help.contains(&named), "no {task} in {help}");
    }
}

#[test]
fn wrong_words_are_usage_errors_which_name_them() {
    for words in [
        &["lap"][..],
        &["package", "--al"],
        &["lab", "--arch", "riscv64"],
    ] {
        let output = xtask(words);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        let wrong = words.last().unwrap();
        assert!(error.contains(&format!("'{wrong}'")), "{error}");
        assert!(error.contains("--help"), "{error}");
    }
}

#[test]
fn a_filter_is_for_the_native_lab_only() {
    let output = xtask(&["lab", "interrupts", "--arch", "aarch64"]);
    assert_eq!(output.status.code(), Some(2));
}
