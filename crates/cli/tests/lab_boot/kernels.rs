//! Debian's kernels by their version: one that has virtio's drivers as modules, and one from another suite than the system's.

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
