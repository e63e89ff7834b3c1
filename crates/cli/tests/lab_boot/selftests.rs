//! `vmbell lab kernel selftests`: our two tests pass on a kernel's KVM, and fail on a broken KVM.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::boots::{host_vmbell, output, text};

/// Our tests.
const OWN: [&str; 2] = ["ioeventfd_test", "irqfd_resample_test"];

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn tests_of_ioeventfd_and_of_resample_pass_on_the_newest_kernel() {
    pass_on(&["debian:newest"], &[], &OWN);
}

/// Fails unless our tests of these names pass on these kernels.
pub(super) fn pass_on(kernels: &[&str], options: &[&str], tests: &[&str]) {
    let mut lab = selftests(options);
    lab.args(kernels.iter().flat_map(|kernel| ["--kernel", kernel]));
    // All kernels use the same tests, so that only one source is downloaded.
    lab.args(["--from", "debian:6.12", "--json"]);
    let output = output(lab.args(tests));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}{said}");
    let value: Value = serde_json::from_str(shown).unwrap();
    let of_kernels = value["kernels"].as_array().unwrap();
    assert_eq!(of_kernels.len(), kernels.len());
    for kernel in of_kernels {
        // None is skipped.
        assert_eq!(kernel["counts"]["pass"], tests.len(), "{shown}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_line_that_no_eoi_lowers_and_a_doorbell_that_no_deassign_removes_are_found() {
    let patch = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/lab_boot/lost-eoi-and-late-doorbell.patch"
    );
    let mut lab = selftests(&["--kernel", "debian:6.12", "--kvm-patch", patch]);
    let output = output(lab.args(OWN));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{shown}{said}");
    for test in OWN {
        let line = shown.lines().find(|line| line.starts_with(test)).unwrap();
        assert!(line.contains(" fail "), "{shown}");
        assert!(line.contains("DIFFERS, known: pass"), "{shown}");
    }
    assert!(
        shown.ends_with(
            "\n0 pass, 0 skip, 2 fail, 0 timeout, 0 crash, 0 unbuilt: 2 differ from what is known\n"
        ),
        "{shown}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_unknown_test_is_told_with_the_nearest_name_before_a_boot() {
    let mut lab = selftests(&["--kernel", "debian:6.12"]);
    let output = output(lab.arg("irqfd_resample_tset"));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("no selftest 'irqfd_resample_tset', did you mean 'irqfd_resample_test'?"),
        "{said}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn json_is_printed_although_an_export_fails() {
    let mut lab = selftests(&["--kernel", "debian:6.12", OWN[1]]);
    let output = output(lab.args(["--json", "--export-markdown", "/dev/full"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("/dev/full"), "{said}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["kernels"][0]["counts"]["pass"], 1, "{value}");
}

/// `vmbell lab kernel selftests` with limits that only a hang reaches.
fn selftests(arguments: &[&str]) -> Command {
    let mut command = Command::new(host_vmbell());
    command
        .args([
            "lab",
            "kernel",
            "selftests",
            "--boot-timeout",
            "1h",
            "--limit",
            "1h",
        ])
        .args(arguments)
        .stdin(Stdio::null());
    command
}
