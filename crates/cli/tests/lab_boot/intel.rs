//! KVM on a CPU with VMX, in Bochs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::boots::{LIMITS, host_vmbell, lab, output, text};
use super::top::{counts, in_l1, lines, said};

/// The report of a deterministic bench of these rows, as it was written.
fn report(rows: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut command = Command::new(host_vmbell());
    command.args(["lab", "kernel", "--cpu", "intel", "--deterministic"]);
    command.args(LIMITS).args(["--", "vmbell", "bench"]);
    command.args(["--only", "--ops", "200", "--export-json"]);
    let output = output(command.arg(&path).args(rows));
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::read_to_string(path).unwrap()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn vmx_has_fast_mmio_and_eois_without_exits_and_a_repeated_run_writes_the_same_report() {
    const ANY_LENGTH: &str = "mmio-any-length-eventfd";
    const LENGTH: &str = "mmio-wildcard-eventfd";
    const EOI: &str = "eoi-x2apic";
    // Without the lab's patches of Bochs, the guest of this row faults.
    const HALTED: &str = "irqfd-edge-to-halted";
    let rows = [ANY_LENGTH, LENGTH, EOI, HALTED];
    let [first, second] = [report(&rows), report(&rows)];
    assert_eq!(first, second);
    let report: Value = serde_json::from_str(&first).unwrap();
    let figure = |name: &str, what: &str| {
        let results = report["results"].as_array().unwrap();
        let row = results.iter().find(|row| row["command"] == name).unwrap();
        assert_eq!(row["status"], "ok", "{row}");
        row[what].clone()
    };
    let instructions = |name| figure(name, "instructions").as_f64().unwrap();
    assert!(instructions(ANY_LENGTH) * 2.0 < instructions(LENGTH));
    assert_eq!(figure(EOI, "exits")["total"], 0.0);
    assert!(instructions(EOI) < 100.0);
    assert!(instructions(HALTED) > 1000.0);
    assert_eq!(report["host"]["kvm_params"]["kvm_intel.enable_apicv"], "Y");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_in_bochs_has_its_streams_its_files_and_its_exit_status() {
    let out = tempfile::tempdir().unwrap();
    let parameters = [
        "--kvm-param",
        "enable_apicv=1,kvm_intel.ple_gap=7,halt_poll_ns=9",
    ];
    let mut lab = lab(&["--cpu", "intel:haswell"]);
    lab.args(parameters).arg("--out");
    let script = "cd /sys/module; cat kvm_intel/parameters/enable_apicv kvm_intel/parameters/ple_gap \
                  kvm/parameters/halt_poll_ns; echo e >&2; echo f >/out/f; exit 3";
    let output = output(lab.arg(out.path()).args(["--", "/bin/sh", "-c", script]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    // That CPU has no posted interrupts, without which KVM has no APICv.
    assert_eq!(text(&output.stdout), "N\n7\n9\n");
    let refused =
        "lab: L1: KVM refused kvm_intel.enable_apicv=1: kvm_intel.enable_apicv is N on this CPU";
    assert_eq!(said.matches("KVM refused").count(), 1, "{said}");
    assert!(said.contains(refused), "{said}");
    assert!(said.contains("\ne\n"), "{said}");
    assert_eq!(fs::read_to_string(out.path().join("f")).unwrap(), "f\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_reboot_ends_bochs_and_never_enters_the_used_kernel() {
    let mut lab = Command::new(host_vmbell());
    lab.args(["lab", "--cpu", "intel"]);
    let output = output(lab.args(["--", "/bin/sh", "-c", "reboot -f"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("Bochs ended (exit status: 1) without a report from L1"),
        "{said}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_in_bochs_is_asked_to_end_at_its_limit() {
    // The loop of this script keeps L1 busy: then L1 takes longest to look for a request.
    let script = "trap 'echo asked; exit 0' TERM; echo began; while :; do :; done";
    let mut lab = Command::new(host_vmbell());
    lab.args(["lab", "--cpu", "intel", "--timeout", "3s"]);
    let output = output(lab.args(["--", "/bin/sh", "-c", script]));
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "began\nasked\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_patch_of_vmx_is_in_the_kvm_that_runs() {
    let patch = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/lab_boot/parameter-of-kvm-intel.patch"
    );
    let mut lab = lab(&["--cpu", "intel", "--kernel", "debian:6.12"]);
    lab.args(["--kvm-patch", patch, "--kvm-param", "vmbell=7", "--"]);
    let output = output(lab.args(["/bin/cat", "/sys/module/kvm_intel/parameters/vmbell"]));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("KVM patched (1 file), Bochs "), "{said}");
    assert_eq!(text(&output.stdout), "7\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn vmms_are_compared_on_vmx_also_with_the_qemu_that_emulates_no_vmx() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut lab = lab(&["--cpu", "intel", "--deterministic", "--"]);
    lab.args(["vmbell", "bench", "vmms", "vmbell", "qemu-microvm"]);
    lab.args(["--rows", "cpuid", "--ops", "5", "--export-json"]);
    let output = output(lab.arg(&path));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for vmm in ["vmbell", "qemu-microvm"] {
        let mut rows = report["results"].as_array().unwrap().iter();
        let row = rows.find(|row| row["backend"] == vmm).unwrap();
        assert_eq!(
            (&row["command"], &row["status"]),
            (&"cpuid".into(), &"ok".into()),
            "{row}"
        );
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_guest_on_vmx_has_vmx_with_apicv_of_its_own() {
    let mut lab = lab(&["--cpu", "intel", "--depth", "2", "--kvm-param", "ple_gap=7"]);
    let files = ["enable_apicv", "ple_gap"];
    let files = files.map(|name| format!("/sys/module/kvm_intel/parameters/{name}"));
    let output = output(lab.args(["--", "/bin/cat"]).args(files));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // L2 has no exits for PLE, so its KVM ignores the parameter.
    assert_eq!(text(&output.stdout), "Y\n0\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_what_two_guests_on_vmx_do() {
    let script = "start_top; start_guests; seen; kill $top; wait $top; exec 3>&- 4>&-; wait";
    let (shown, folder) = in_l1(&["--cpu", "intel"], script);
    let lines = lines(folder.path());
    for (way, exits, rings) in [("exit", 2000, 0), ("ioeventfd", 0, 2000)] {
        let found = counts(&lines, said(&shown, &format!("{way}: ")));
        // The guest also halts once.
        assert_eq!(
            (found["exits_to_vmm"], found["ioeventfds"]),
            (exits + 1, rings),
            "{way}"
        );
    }
}
