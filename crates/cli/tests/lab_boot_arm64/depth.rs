//! `--depth` on arm64: a program in a guest of L1 that starts at EL2 and has its own KVM.

use std::fs;

use serde_json::Value;

use super::boots::states::{SAVED, beginning};
use super::boots::{lab, output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn a_guest_of_a_guest_makes_its_exits_and_rings_its_doorbells_in_l2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut lab = lab(&[
        "--deterministic",
        "--depth",
        "2",
        "--exits",
        "--",
        "vmbell",
        "bench",
    ]);
    lab.args(["--only", "mmio-no-eventfd", "mmio-wildcard-eventfd"]);
    let output = output(
        lab.args(["--runs", "1", "--ops", "20", "--export-json"])
            .arg(&path),
    );
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(", deterministic, 1 CPU, depth 2\n"), "{said}");
    // Each return to a program in L2 is an ERET, which traps.
    let (_, exits) = said
        .split_once(" exits of L1's guests while the program ran: ")
        .unwrap();
    assert!(exits.lines().next().unwrap().contains("eret "), "{exits}");
    let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let host = &report["host"];
    assert_eq!(
        (&host["depth"], &host["depth_vmm"]),
        (&2.into(), &"vmbell".into())
    );
    let [exit, doorbell] = &report["results"].as_array().unwrap()[..] else {
        panic!("two rows are wanted: {report}")
    };
    let to_vmm = [exit, doorbell].map(|row| row["exits"]["userspace"].as_f64());
    assert_eq!(to_vmm, [Some(1.0), Some(0.0)], "{report}");
    // A doorbell is handled in L2's kernel, but the guest's store takes several exits of L1's guests.
    let [exit, doorbell] = [exit, doorbell].map(|row| row["instructions"].as_f64().unwrap());
    assert!(doorbell > 20_000.0 && exit > 1.5 * doorbell, "{report}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn a_deterministic_linux_in_l2_begins_where_it_was_saved() {
    let mut lab = lab(&["--depth", "2", "--deterministic", "--", "/bin/sh", "-c"]);
    let output = output(lab.arg("echo right; exit 7"));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "right\n");
    assert_eq!(beginning(&output), SAVED);
}
