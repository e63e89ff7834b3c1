//! `vmbell bench` with `--baseline` and `--interleave`.

use std::fs;
use std::path::Path;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

use crate::common::{Words, stdout, vmbell};

const THIS: &str = env!("CARGO_BIN_EXE_vmbell");

/// A bench of rows that behave in one known way.
fn bench(words: impl Words) -> assert_cmd::Command {
    let mut command = vmbell("bench --only --min-time 1ms --no-warnings");
    command.args(words.words());
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_program_in_turns_with_itself_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("turns");
    let text = stdout(
        bench(&[
            "debug-constant",
            "debug-double",
            "--turns",
            "2",
            "--interleave",
            THIS,
        ])
        .arg("--keep-turns")
        .arg(&kept),
    );
    assert!(
        text.starts_with("2 same\n2 reports a side, in turns"),
        "{text}"
    );
    let kept_names = [
        "new-001.json",
        "new-002.json",
        "old-001.json",
        "old-002.json",
    ];
    assert_eq!(names(&kept), kept_names);
    let report = fs::read_to_string(kept.join("old-002.json")).unwrap();
    assert_eq!(vmbell_report::parse(&report).unwrap().plan.runs, 3);
}

#[test]
fn a_threshold_that_no_turns_could_reach_is_refused_before_a_side_runs() {
    let refused = bench("debug-constant --turns 5 --fail-above 5%")
        .args(["--interleave", "/nonexistent/vmbell"])
        .assert();
    refused.code(2).stdout("").stderr(contains(
        "error: not enough data for --fail-above: times need --turns 6 or more",
    ));
    bench("debug-constant --turns 6 --fail-above 1000%")
        .args(["--interleave", THIS])
        .assert()
        .success()
        .stderr(contains("not enough data for --fail-above").not());
}

#[test]
fn the_other_side_may_be_a_command_with_words() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("turns");
    let other = format!("env 'VMBELL_TEST=a b' {THIS}");
    bench(&[
        "debug-constant",
        "--turns",
        "1",
        "--runs",
        "4",
        "--interleave",
        &other,
    ])
    .arg("--keep-turns")
    .arg(&kept)
    .assert()
    .success();
    let report = fs::read_to_string(kept.join("old-001.json")).unwrap();
    assert_eq!(vmbell_report::parse(&report).unwrap().plan.runs, 4);
}

#[test]
fn a_side_that_fails_is_named_with_what_it_says() {
    bench(&[
        "debug-constant",
        "--interleave",
        "sh -c 'echo error: no such thing >&2; exit 3'",
    ])
    .assert()
    .code(1)
    .stderr(contains("the old side"))
    .stderr(contains("ended with exit status: 3: error: no such thing"));
    bench("debug-constant --interleave /nonexistent/vmbell")
        .assert()
        .code(1)
        .stderr(contains("cannot run /nonexistent/vmbell"));
}

#[test]
fn what_is_measured_is_compared_with_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.json");
    let export = |name: &str| {
        bench(&[name, "--runs", "12", "--style", "none", "--export-json"])
            .arg(&old)
            .assert()
            .success();
    };
    export("debug-constant");
    let compared = || {
        let mut command = bench("debug-constant --runs 12 --fail-above 5%");
        command.args(baselines(&old, 39));
        command
    };
    let text = stdout(&mut compared());
    assert!(text.contains("\nbefore and now\n"), "{text}");
    assert!(text.contains("\n1 same\n"), "{text}");
    // The same report with half the times, so that the new one is twice as slow.
    let json = fs::read_to_string(&old).unwrap();
    let mut report = vmbell_report::parse(&json).unwrap();
    let rows = report.results.iter_mut();
    for measured in rows.filter_map(|row| row.measured_mut()) {
        measured.times.samples.iter_mut().for_each(|ns| *ns /= 2.0);
    }
    fs::write(&old, vmbell_report::json(&report)).unwrap();
    compared()
        .assert()
        .code(1)
        .stderr(contains("slower by more than 5.0 %: debug-constant"));
}

/// Returns `count` options `--baseline` with the same report, so that there are enough reports for a verdict on times.
fn baselines(report: &Path, count: usize) -> Vec<String> {
    let one = format!("--baseline={}", report.display());
    vec![one; count]
}

#[test]
fn a_threshold_that_no_verdict_could_reach_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.json");
    let mut export = bench("debug-constant --export-json");
    export.arg(&old).assert().success();
    let mut command = bench("debug-constant --fail-above 5%");
    let told = "error: not enough data for --fail-above: times need --interleave, or at least 39 reports of --baseline";
    command
        .args(baselines(&old, 38))
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains(told));
    // Without the threshold the ratio is shown.
    let text = stdout(bench("debug-constant").args(baselines(&old, 1)));
    assert!(text.contains("\n1 inconclusive\n"), "{text}");
    assert!(text.contains("with one report per side"), "{text}");
}

#[test]
fn a_row_of_the_baseline_is_missing_only_if_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.json");
    bench("debug-constant debug-double --export-json")
        .arg(&old)
        .assert()
        .success();
    // As if the row that is always skipped had been measured before.
    let json = fs::read_to_string(&old).unwrap();
    fs::write(&old, json.replace("debug-double", "debug-skip")).unwrap();
    let compared = |words: &str| {
        let mut command = bench(words);
        command
            .args(["--fail-above", "50%"])
            .args(baselines(&old, 39));
        command.assert()
    };
    compared("debug-constant").success();
    compared("debug-constant debug-skip")
        .code(1)
        .stderr(contains("not measured now").and(contains("debug-skip")));
    compared("debug-constant debug-skip --allow-missing").success();
}

#[test]
fn a_row_that_fails_in_turns_fails_the_command_as_it_fails_a_bench() {
    let words = ["debug-constant", "debug-fail", "--turns", "1"];
    bench(&words)
        .args(["--interleave", THIS])
        .assert()
        .code(1)
        .stdout(contains("1 inconclusive").or(contains("1 same")));
}

#[test]
fn turns_are_not_kept_beside_those_of_another_measurement() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old-003.json"), "").unwrap();
    bench(&["debug-constant", "--turns", "1", "--interleave", THIS])
        .arg("--keep-turns")
        .arg(folder.path())
        .assert()
        .code(2)
        .stderr(contains("has reports of other turns, such as old-003.json"));
    assert_eq!(names(folder.path()), ["old-003.json"]);
}

#[test]
fn sides_that_cannot_be_compared_are_found_after_the_first_turn() {
    let folder = tempfile::tempdir().unwrap();
    let (other, kept) = (folder.path().join("other.json"), folder.path().join("kept"));
    bench("debug-constant --export-json")
        .arg(&other)
        .assert()
        .success();
    let text = fs::read_to_string(&other).unwrap();
    let mut report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["host"]["cpu"] = serde_json::json!("Another CPU");
    fs::write(&other, report.to_string()).unwrap();
    let command = format!("sh -c 'cat {}' sh", other.display());
    bench(&["debug-constant", "--turns", "5", "--interleave", &command])
        .arg("--keep-turns")
        .arg(&kept)
        .assert()
        .failure()
        .stderr(contains("not comparable"));
    assert_eq!(names(&kept), ["new-001.json", "old-001.json"]);
}

#[test]
fn an_export_does_not_replace_its_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    bench("debug-constant --export-json")
        .arg(&path)
        .assert()
        .success();
    let before = fs::read(&path).unwrap();
    bench("debug-constant --baseline")
        .arg(&path)
        .arg("--export-json")
        .arg(&path)
        .assert()
        .code(2)
        .stderr(contains("would replace the baseline"));
    assert_eq!(fs::read(&path).unwrap(), before);
}
