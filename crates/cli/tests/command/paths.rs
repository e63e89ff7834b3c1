//! `vmbell bench` from outside: right and wrong arguments.

use super::common::{json, quick, read_json, vmbell};
use assert_cmd::Command;
use kit::wait::HANG;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::Value;

#[test]
fn a_floor_is_measured_and_printed() {
    quick("floor-getppid")
        .assert()
        .success()
        .stdout(contains("floor-getppid").and(contains("ns")));
}

#[test]
fn the_chosen_cpu_is_reported() {
    let report = json(&mut quick("floor-getppid --cpu 0 --export-json -"));
    assert_eq!(report["cpus"], serde_json::json!([0]));
    assert_eq!(report["results"][0]["cpus"], serde_json::json!([0]));
}

#[test]
fn floors_across_cores_are_skipped_on_one_cpu_and_that_is_77() {
    quick("floor-cache-line --cpu 0")
        .assert()
        .code(77)
        .stdout(contains("skipped: floor-cache-line\n  needs two CPUs"));
}

#[test]
fn a_failed_entry_is_named_and_is_1() {
    quick("debug-fail debug-constant")
        .assert()
        .code(1)
        .stdout(contains("failed: debug-fail\n  it always does").and(contains("100 ns")));
}

#[test]
fn everything_skipped_is_77_and_something_measured_is_0() {
    quick("debug-skip").assert().code(77);
    quick("debug-skip debug-constant").assert().code(0);
}

#[test]
fn rows_of_eois_count_the_exits_of_eois_only() {
    let report = json(&mut quick(
        "eoi-* --only --backend usermode --export-json -",
    ));
    for (name, light) in [("eoi-apic", 1.0), ("eoi-x2apic", 1.0), ("eoi-pv", 0.0)] {
        let rows = report["results"].as_array().unwrap();
        let row = rows.iter().find(|row| row["command"] == name).unwrap();
        assert_eq!(row["status"], "ok", "{row}");
        let exits = |name: &str| row["exits"][name].as_f64().unwrap();
        let counted = exits("total") - exits("userspace");
        // A vCPU that is preempted sometimes loses its PV EOI bit.
        assert!((counted - light).abs() < 0.11, "{name}: {counted}");
        assert_eq!(exits("userspace"), 0.0, "{name}");
    }
}

#[test]
fn a_ratio_is_new_over_old() {
    let report = json(&mut quick("debug-constant debug-double --export-json -"));
    let ratio = &report["results"][0]["ratio"];
    assert_eq!(ratio["reference"], "debug-constant");
    assert_eq!(ratio["value"], 2.0);
}

#[test]
fn a_row_without_its_counterpart_is_warned_of() {
    let doubt = "no ratio for debug-double";
    quick("debug-double --only")
        // Where the line wraps depends on the other notes about the host's quality.
        .env("COLUMNS", "400")
        .assert()
        .success()
        .stdout(contains(doubt))
        .stderr(is_empty());
    quick("debug-double --only --verbose")
        .assert()
        .success()
        .stderr(contains(doubt));
    quick("debug-double --only --verbose --no-warnings")
        .assert()
        .success()
        .stderr(is_empty());
}

#[test]
fn a_seed_is_taken_and_reported() {
    quick("debug-constant --seed 42 --verbose")
        .assert()
        .success()
        .stdout(contains("seed 42"));
}

#[test]
fn the_spin_policy_is_stated_in_words() {
    quick("debug-constant --spin spin --verbose")
        .assert()
        .success()
        .stdout(contains("keeps one more CPU busy"));
}

#[test]
fn a_reference_can_be_chosen_and_comes_along() {
    quick("debug-constant --reference debug-double")
        .assert()
        .success()
        .stdout(contains("100 ns").and(contains("2.0x cheaper")));
    quick("debug-constant --reference debug-double --verbose")
        .assert()
        .success()
        .stdout(contains("ratio").and(contains("0.50  [0.50, 0.50]")));
}

#[test]
fn an_emulators_time_is_marked_and_measured_by_operations() {
    for (timing, unit, heading) in [
        ("instructions", "instructions", "instructions"),
        ("emulated", "time", "emulated"),
    ] {
        let mut command = vmbell("bench debug-constant -v --export-json -");
        let output = command.env("VMBELL_TIMING", timing).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["timing"], "emulated");
        assert_eq!(report["unit"], unit);
        assert_eq!(report["plan"]["ops"], 2000);
        let row = &report["results"][0];
        assert_eq!(row["ops"][0], 2000);
        assert_eq!(row["timing_valid"], false);
        assert_eq!(row["instructions"].is_number(), unit == "instructions");
        let table = String::from_utf8(output.stderr).unwrap();
        assert!(table.contains("timing       emulated: "), "{table}");
        assert!(table.contains(&format!("{heading}  ± spread")), "{table}");
    }
}

#[test]
fn an_unknown_timing_is_a_usage_error() {
    quick("debug-constant")
        .env("VMBELL_TIMING", "guessed")
        .assert()
        .code(2)
        .stderr(contains("VMBELL_TIMING=guessed"));
}

#[test]
fn a_number_of_operations_takes_the_place_of_a_time() {
    let report = json(&mut vmbell(
        "bench debug-constant --runs 2 --ops 7 --export-json -",
    ));
    assert_eq!(report["results"][0]["ops"][0], 7);
    assert_eq!(report["plan"]["min_time"], 0.0);
}

#[test]
fn rows_of_an_assigned_device_say_what_is_missing() {
    quick("--only --backend usermode passthrough-*")
        .assert()
        .code(77)
        .stdout(
            contains("needs QEMU's device edu (pci 1234:11e8)")
                .and(contains("vmbell lab -- vmbell bench 'passthrough-*'")),
        );
}

#[test]
fn rows_that_need_two_cpus_are_skipped_on_one() {
    quick("--backend usermode --only portio-no-eventfd+spin notify-portio-wildcard-eventfd --cpu 0")
    .assert()
    .code(77)
    .stdout(contains(
        "skipped: portio-no-eventfd+spin, notify-portio-wildcard-eventfd\n  needs two CPUs, and may use \
         only CPU 0",
    ));
}

#[test]
fn without_names_the_first_questions_are_answered_in_40_lines_of_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let output = vmbell("bench --runs 3 --min-time 1ms --export-json")
        .arg(&json)
        .env("COLUMNS", "200")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 40, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let begins = |start: &str| text.starts_with(start) || text.contains(&format!("\n{start}"));
    assert!(
        begins("A doorbell (ioeventfd) costs ") || begins("kvm: A"),
        "{text}"
    );
    assert!(text.contains("\nnext\nvmbell bench --all -v "), "{text}");
    let report = read_json(&json);
    let backends: Vec<&str> = report["backends"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    assert!(backends.contains(&"usermode"), "{backends:?}");
    let rows = report["results"].as_array().unwrap();
    for backend in &backends {
        let of = |row: &&Value| row["backend"] == *backend && row["group"] == "scenario";
        assert_eq!(rows.iter().filter(of).count(), 15, "{backend}");
    }
    assert_eq!(rows.iter().filter(|row| row["group"] == "floor").count(), 3);
}

fn name(backend: &Value) -> &str {
    backend["name"].as_str().unwrap()
}

#[test]
fn a_backend_named_twice_is_measured_once() {
    let words = "portio-wildcard-eventfd --only --backend usermode,usermode --export-json -";
    let report = json(&mut quick(words));
    assert_eq!(report["results"].as_array().unwrap().len(), 1);
}

#[test]
fn a_scan_measures_each_value_and_compares_it_with_the_first() {
    let mut command = quick("portio-datamatch-eventfd --only --backend usermode --export-json -");
    let report = json(command.args("--doorbells 0,100 --vcpus 1,2".split(' ')));
    let rows = report["results"].as_array().unwrap();
    let first = "portio-datamatch-eventfd,doorbells=0,vcpus=1";
    assert_eq!((rows.len(), rows[0]["command"].as_str()), (4, Some(first)));
    for (row, (doorbells, vcpus)) in
        rows.iter()
            .zip([("0", "1"), ("0", "2"), ("100", "1"), ("100", "2")])
    {
        assert_eq!(row["status"], "ok", "{row:#}");
        assert_eq!(row["parameters"]["doorbells"], doorbells);
        assert_eq!(row["parameters"]["vcpus"], vcpus);
        // Every notification of every vCPU was handled below the VMM.
        assert_eq!(row["exits"]["total"], 1.0);
        assert_eq!(row["exits"]["userspace"], 0.0);
    }
    assert_eq!(rows[3]["ratio"]["reference"], first);
    assert_eq!(report["ratios_to"], "first value");
    quick("--doorbells 100000")
        .assert()
        .code(2)
        .stderr(contains("4096"));
}

#[test]
fn registrations_are_measured_by_the_first_call_after_an_idle_time_and_by_later_ones() {
    let mut command = quick("--only --backend usermode --export-json -");
    command.args(["ioeventfd-*-first", "ioeventfd-*-later"]);
    command.args(["irqfd-assign-*", "irqfd-deassign-*"]);
    let report = json(&mut command);
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(row["status"], "ok", "{row:#}");
        // No vCPU runs.
        assert_eq!(row["exits"]["userspace"], 0.0);
        let name = row["command"].as_str().unwrap();
        let later = name.strip_suffix("-first").map(|of| format!("{of}-later"));
        assert_eq!(row["ratio"]["reference"].as_str(), later.as_deref());
    }
}

#[test]
fn a_scan_registers_others_and_a_row_that_rests_has_fewer_operations() {
    let mut command = vmbell("bench irqfd-assign-first irqfd-deassign-later");
    command.args(["--only", "--backend", "usermode", "--doorbells", "0,1000"]);
    command.args(["--runs", "1", "--warmup", "0", "--ops", "1000"]);
    // A shell's soft limit, which is too low for the eventfds.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -Sn 1024 && exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.args(["--export-json", "-"]).timeout(HANG);
    let report = json(&mut shell);
    let rows = report["results"].as_array().unwrap();
    let firsts = [
        "irqfd-assign-first,irqfds=0",
        "irqfd-deassign-later,irqfds=0",
    ];
    for (row, (first, ops)) in rows.iter().zip([
        (firsts[0], 16),
        (firsts[0], 16),
        (firsts[1], 128),
        (firsts[1], 128),
    ]) {
        assert_eq!(row["status"], "ok", "{row:#}");
        assert_eq!(row["ops"][0], ops);
        let reference = row["ratio"]["reference"].as_str();
        assert!(
            row["command"] == first || reference == Some(first),
            "{row:#}"
        );
    }
    let others: Vec<_> = rows
        .iter()
        .map(|row| &row["parameters"]["irqfds"])
        .collect();
    assert_eq!(others, ["0", "1000", "0", "1000"]);
}
