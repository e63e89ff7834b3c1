//! `vmbell top` on a host without VMs, or without the rights to count.

use std::io::Read;
use std::process::Command;

use super::common::vmbell;
use kit::terminal::{self, ENTER};
use predicates::str::contains;

#[test]
fn an_error_of_top_is_shown_without_another_screen() {
    let (mut keyboard, end) = terminal::open();
    let end_of_child = || end.try_clone().unwrap();
    // This process has no VM. A host without KVM, or without rights, gives another reason.
    let mut child = Command::new(env!("CARGO_BIN_EXE_vmbell"))
        .args(["top", "--pid", &std::process::id().to_string()])
        .env("TERM", "xterm")
        .stdin(end_of_child())
        .stdout(end_of_child())
        .stderr(end_of_child())
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(end);
    let mut said = Vec::new();
    // A closed terminal is an error, but what was read before is kept.
    let _ = keyboard.read_to_end(&mut said);
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("error: "), "{said:?}");
    assert!(
        said.contains("has no VM on KVM that this user can see"),
        "{said:?}"
    );
    assert!(!said.contains(ENTER), "{said:?}");
}

#[test]
fn files_that_cannot_be_written_and_two_texts_in_one_place_are_found_at_once() {
    let export = ["top", "--once", "--export-openmetrics"];
    let mut both = vmbell(&export);
    both.args(["-", "--json"]).assert().code(2);
    let mut same = vmbell(&export);
    let same = same.args(["/tmp/vmbell-top", "--record", "/tmp/vmbell-top"]);
    same.assert().code(2).stderr(contains("two exports go to"));
    let mut bad = vmbell(&export);
    let bad = bad.arg("/nowhere/a.prom").assert().code(1);
    bad.stderr(contains("cannot write to '/nowhere/a.prom'"));
}
