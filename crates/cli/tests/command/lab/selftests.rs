//! `vmbell lab kernel selftests`: errors before it begins.

use std::fs;

use assert_cmd::assert::OutputAssertExt;
use predicates::str::contains;

use super::support::Sandbox;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_kernel_in_a_file_has_no_source_unless_another_is_named() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let mut command = sandbox.run_as(&["lab", "kernel", "selftests"], &qemu);
    command.assert().code(125).stderr(
        contains("which is not a kernel of Debian's archive: --from debian:6.12 takes the tests of that kernel"),
    );
}

#[test]
fn another_architecture_is_refused_before_anything_is_prepared() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.vmbell();
    command.args(["lab", "kernel", "selftests", "--arch", "aarch64"]);
    command.assert().code(125).stderr(contains(
        "error: the selftests are for x86_64, and this machine is aarch64",
    ));
    assert!(!sandbox.path("cache").exists());
}

#[test]
fn a_wrong_list_of_known_results_is_told_by_its_line() {
    let sandbox = Sandbox::new();
    let list = sandbox.path("known");
    fs::write(&list, "6.12 smm_test broken\n").unwrap();
    let known = |path| {
        let mut command = sandbox.vmbell();
        command.args(["lab", "kernel", "selftests", "--arch", "x86_64", "--known"]);
        command.arg(path).assert().code(2)
    };
    known(list).stderr(contains(
        "known: line 1 is not `KERNEL TEST RESULT CAUSE`, with the result",
    ));
    known(sandbox.path("absent")).stderr(contains("--known: cannot read "));
}
