//! A patched KVM, built for one of Debian's kernels.

use super::boots::{lab, output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn kvm_built_from_its_source_is_the_packages_except_for_the_patch() {
    // The patch adds 50 instructions to each write to an ioeventfd.
    let patch = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/lab_boot/slower-doorbell.patch"
    );
    let [doorbell, exit] = ["portio-wildcard-eventfd", "portio-no-eventfd"];
    let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-patch", patch]);
    lab.args(["--unpatched", "--deterministic", "--", "vmbell", "bench"]);
    let output = output(lab.args(["--only", "--ops", "100", doorbell, exit]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(" (debian:6.12), KVM patched (1 file), QEMU "),
        "{said}"
    );
    // Each report says so; its lines are wrapped.
    let words: Vec<&str> = shown.split_whitespace().collect();
    let named = words
        .join(" ")
        .matches("with a KVM built out of tree")
        .count();
    assert_eq!(named, 1, "{shown}");
    let (_, table) = shown
        .split_once("\ninstructions, and their ratios to those of debian:6.12\n")
        .unwrap();
    assert!(table.contains(" debian:6.12, patched  ratio\n"), "{table}");
    let added = |row: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(row));
        let cells = line.unwrap().split_whitespace();
        let cells: Vec<f64> = cells.map(|cell| cell.parse().unwrap()).collect();
        cells[1] - cells[0]
    };
    assert!((added(doorbell) - 50.0).abs() < 5.0, "{table}");
    assert!(added(exit).abs() < 5.0, "{table}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_patch_that_does_not_apply_or_build_is_told_by_file_and_line() {
    const KVMS: &str = "  * kvm eventfd support - use eventfd objects to signal various KVM events";
    let folder = tempfile::tempdir().unwrap();
    let patch = |first: &str, new: &str| {
        let path = folder.path().join("a.patch");
        let diff = format!(
            "--- a/virt/kvm/eventfd.c\n+++ b/virt/kvm/eventfd.c\n@@ -1,3 +1,4 @@\n+{new}\n {first}\n /*\n{KVMS}\n"
        );
        std::fs::write(&path, diff).unwrap();
        let mut lab = lab(&["--kernel", "debian:6.12", "--kvm-patch"]);
        let output = output(lab.arg(path).args(["--", "/bin/true"]));
        assert_eq!(output.status.code(), Some(125));
        text(&output.stderr).to_owned()
    };
    let said = patch("no such line", "x");
    assert!(
        said.contains("a.patch does not apply to Linux 6.12."),
        "{said}"
    );
    assert!(
        said.contains(": virt/kvm/eventfd.c: Hunk #1 FAILED at 1"),
        "{said}"
    );
    let said = patch(
        "// SPDX-License-Identifier: GPL-2.0-only",
        "no_such_type variable;",
    );
    assert!(said.contains("the build for Linux 6.12."), "{said}");
    assert!(
        said.contains(": virt/kvm/eventfd.c:1:1: error: unknown type name"),
        "{said}"
    );
}
