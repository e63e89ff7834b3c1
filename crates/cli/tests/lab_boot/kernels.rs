//! Debian's kernels by their version: one that has virtio's drivers as modules, and one from another suite than the system's;
//! and a KVM of one's own, built with what those suites have.

use super::boots::{lab, output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_bench_runs_on_each_kernel_that_is_named_and_is_compared() {
    let kernels = ["--kernel", "debian:6.1", "--kernel", "debian:6.12"];
    let mut lab = lab(&kernels);
    lab.args(["--deterministic", "--", "vmbell", "bench", "--ops", "100"]);
    let output = output(lab.arg("portio-wildcard-eventfd"));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(shown.contains(", Linux 6.1.0-"), "{shown}");
    let (_, table) = shown
        .split_once("\ninstructions, and their ratios to those of debian:6.1\n")
        .unwrap();
    let row = table
        .lines()
        .find(|line| line.starts_with("portio-wildcard-eventfd "));
    assert_eq!(row.unwrap().split_whitespace().count(), 4, "{table}");
}

/// The instructions of the row in each column of a table of kernels.
fn instructions(table: &str, row: &str) -> Vec<f64> {
    let mut lines = table.lines();
    let line = lines.find_map(|line| line.strip_prefix(row)).unwrap();
    let cells: Vec<f64> = line
        .split_whitespace()
        .map(|cell| cell.parse().unwrap())
        .collect();
    // A ratio follows each but the first.
    let after_ratios = cells[1..].chunks(2).map(|pair| pair[0]);
    [cells[0]].into_iter().chain(after_ratios).collect()
}

/// Boots the unpatched and the patched KVM, and returns the instructions of a doorbell with and without an eventfd in each.
fn measured(patch: &str) -> [Vec<f64>; 2] {
    let patch = format!(
        "{}/tests/lab_boot/{patch}.patch",
        env!("CARGO_MANIFEST_DIR")
    );
    let kernel = ["--kernel", "debian:6.12", "--kvm-patch", &patch];
    let mut lab = lab(&kernel);
    lab.args(["--unpatched", "--deterministic", "--", "vmbell", "bench"]);
    lab.args(["--only", "--ops", "100", ROWS[0], ROWS[1]]);
    let output = output(&mut lab);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let (_, table) = shown
        .split_once("\ninstructions, and their ratios to those of debian:6.12\n")
        .unwrap();
    assert!(table.contains(" debian:6.12, patched  ratio\n"), "{table}");
    ROWS.map(|row| instructions(table, row))
}

const ROWS: [&str; 2] = ["portio-wildcard-eventfd", "portio-no-eventfd"];

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn kvm_built_from_its_source_is_that_of_the_package_and_a_patch_is_seen() {
    for row in measured("unchanged") {
        assert!((row[1] - row[0]).abs() < 5.0, "{row:?}");
    }
    // The patch adds 50 instructions to each write to an ioeventfd.
    let [doorbell, exit] = measured("slower-doorbell");
    assert!(
        (48.0..=52.0).contains(&(doorbell[1] - doorbell[0])),
        "{doorbell:?}"
    );
    assert!((exit[1] - exit[0]).abs() < 10.0, "{exit:?}");
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
    assert!(
        said.contains("cannot build modules for Linux 6.12."),
        "{said}"
    );
    assert!(
        said.contains(": virt/kvm/eventfd.c:1:1: error: unknown type name"),
        "{said}"
    );
}
