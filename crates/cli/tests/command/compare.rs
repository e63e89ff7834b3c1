//! `vmbell compare`: verdicts, exit statuses, and files that are not what they should be.

use std::path::Path;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, starts_with};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::common::{quick, read_json, stdout, vmbell};

fn report() -> Value {
    serde_json::from_str(include_str!("../../../report/tests/data/report.json")).unwrap()
}

/// A report whose measured rows take `factor` of the time, and differ from round to round by what `seed` says.
fn scaled(factor: f64, seed: u64) -> Value {
    let mut report = report();
    report["duration"] = json!(seed);
    for row in report["results"].as_array_mut().unwrap() {
        if row["status"] == "ok" {
            let samples = (0..10).map(|round| {
                let noise = (seed * 31 + round * 17) % 19;
                1000.0 * factor * (1.0 + noise as f64 / 1000.0)
            });
            let mut samples: Vec<f64> = samples.collect();
            row["samples_ns"] = json!(samples);
            row["ops"] = json!(vec![1000; samples.len()]);
            samples.sort_by(f64::total_cmp);
            row["median"] = json!((samples[4] + samples[5]) / 2e9);
        }
    }
    report
}

/// Writes these texts to files and runs `compare` on them, after other arguments.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Eight reports of one side, each of which takes `factor` of the time.
    fn side(&self, name: &str, factor: f64, first: u64) -> Vec<String> {
        let one = |seed| {
            self.write(
                &format!("{name}{seed}.json"),
                &scaled(factor, seed).to_string(),
            )
        };
        (first..first + 8).map(one).collect()
    }
}

fn compare(options: &[&str], old: &[String], new: &[String]) -> assert_cmd::Command {
    let mut command = vmbell(&["compare"]);
    command.args(options).args(old).arg("--").args(new);
    command
}

/// What `compare` says to a file in place of the old report.
fn refuses(text: &str) -> assert_cmd::assert::Assert {
    let files = Files::new();
    let old = files.write("old.json", text);
    let new = files.write("new.json", &report().to_string());
    vmbell(&["compare", &old, &new]).assert().code(2).stdout("")
}

#[test]
fn two_benches_are_compared_and_say_that_two_runs_are_few() {
    let files = Files::new();
    let [old, new] = ["old.json", "new.json"].map(|name| {
        let path = files.0.path().join(name);
        quick(&["debug-double", "--export-json"])
            .arg(&path)
            .assert()
            .success();
        path.to_str().unwrap().to_owned()
    });
    let text = stdout(&mut vmbell(&["compare", &old, &new]));
    assert!(text.starts_with("1 report before, 1 report now;"), "{text}");
    assert!(text.contains("debug-double"), "{text}");
    assert!(
        text.contains("One report against one report knows nothing"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn a_side_that_is_slower_fails_above_the_threshold_and_not_below_it() {
    let files = Files::new();
    let (old, new) = (files.side("old", 1.0, 0), files.side("new", 1.2, 10));
    for turns in [&["--turns"][..], &[]] {
        let with = |threshold| [turns, &["--fail-above", threshold]].concat();
        compare(&with("5%"), &old, &new)
            .assert()
            .code(1)
            .stdout(contains("slower"))
            .stderr(starts_with("slower by more than 5.0 %: "));
        compare(&with("30%"), &old, &new)
            .assert()
            .success()
            .stderr("");
        compare(&with("5%"), &new, &old)
            .assert()
            .success()
            .stdout(contains("faster"));
    }
    let same = files.side("same", 1.0, 20);
    compare(&["--fail-above", "0%"], &old, &same)
        .assert()
        .success()
        .stdout(contains("same").and(contains("slower").not()));
}

#[test]
fn a_comparison_is_exported_and_repeats_itself() {
    let files = Files::new();
    let (old, new) = (files.side("old", 1.0, 0), files.side("new", 1.2, 10));
    let path = files.0.path().join("out.json");
    let markdown = files.0.path().join("out.md");
    let exports = [
        "--export-json",
        path.to_str().unwrap(),
        "--export-markdown",
        markdown.to_str().unwrap(),
    ];
    compare(&exports, &old, &new).assert().success();
    let json = read_json(&path);
    assert_eq!(json["kind"], "comparison");
    assert_eq!(json["old_reports"], 8);
    assert_eq!(json["rows"][0]["verdict"], "slower");
    assert!(
        std::fs::read_to_string(markdown)
            .unwrap()
            .contains("| **slower** |")
    );
    let on_stdout = stdout(&mut compare(&["--export-json", "-"], &old, &new));
    assert_eq!(serde_json::from_str::<Value>(&on_stdout).unwrap(), json);
}

#[test]
fn colours_are_there_if_they_are_wanted() {
    let files = Files::new();
    let (old, new) = (files.side("old", 1.0, 0), files.side("new", 1.2, 10));
    compare(&["--style", "color"], &old, &new)
        .assert()
        .stdout(contains("\x1b[31mslower"));
    compare(&["--style", "none"], &old, &new)
        .assert()
        .stdout("");
}

#[test]
fn a_report_that_is_cut_short_names_the_field_and_the_line() {
    let text = serde_json::to_string_pretty(&report()).unwrap();
    let cut = &text[..text.len() / 2];
    refuses(cut)
        .stderr(contains("old.json': it is not whole JSON"))
        .stderr(contains("reading ended at its field 'results["))
        .stderr(contains("at line "));
}

#[test]
fn a_file_of_something_else_says_so() {
    refuses("").stderr(contains("old.json': it is empty"));
    refuses("[1, 2]").stderr(contains("not a vmbell report: it has no 'schema_version'"));
    refuses(r#"{"results": [{"command": "ls", "mean": 1.0, "times": [1.0]}]}"#)
        .stderr(contains("it is a report of hyperfine, not of vmbell"));
    refuses("\u{7f}ELF").stderr(contains("it is not whole JSON"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_report() {
    let files = Files::new();
    let text = report().to_string();
    let marked = files.write("marked.json", &format!("\u{feff}{text}"));
    let plain = files.write("plain.json", &text);
    for command in [
        &["compare", &marked, &plain][..],
        &["report", &marked, &plain, "-o", "/dev/null"],
        &[
            "bench",
            "debug-constant",
            "--only",
            "--runs",
            "1",
            "--baseline",
            &marked,
        ],
    ] {
        vmbell(command)
            .assert()
            .stderr(contains("not whole JSON").not());
    }
    refuses("\u{feff}").stderr(contains("old.json': it is empty"));
}

#[test]
fn what_is_shown_is_ascii_if_the_locale_is_not_utf8() {
    let files = Files::new();
    let mut report = scaled(10.0, 1);
    report["host"]["cpu"] = json!("a CPU");
    let path = files.write("a.json", &report.to_string());
    let shown = |locale: &str| {
        let mut command = vmbell(&["compare", &path, &path]);
        stdout(command.env("LC_ALL", locale))
    };
    let (plain, utf8) = (shown("C"), shown("C.UTF-8"));
    assert!(plain.is_ascii() && plain.contains(" us "), "{plain}");
    assert_eq!(utf8.replace('µ', "u"), plain);
    let mut bench = quick(&["debug-double", "--only", "--verbose", "--no-warnings"]);
    let text = stdout(bench.env("LC_ALL", "C"));
    assert!(text.is_ascii() && text.contains("+- spread"), "{text}");
    let mut export = vmbell(&["compare", &path, &path, "--export-markdown", "-"]);
    assert!(stdout(export.env("LC_ALL", "C")).contains("µs"));
}

#[test]
fn a_number_that_no_measurement_gives_is_refused_and_named() {
    let files = Files::new();
    let mut large = report();
    let rows = large["results"].as_array_mut().unwrap();
    let place = rows.iter().position(|row| row["status"] == "ok").unwrap();
    rows[place]["samples_ns"][1] = json!(1e308);
    let field =
        format!("its field 'results[{place}].samples_ns[1]' is 1e308, which no measurement gives");
    refuses(&large.to_string()).stderr(contains(&field));
    let large = files.write("large.json", &large.to_string());
    vmbell(&["report", &large, "-o", "/dev/null"])
        .assert()
        .failure()
        .stderr(contains(&field));
}

#[test]
fn an_error_that_quotes_a_file_cannot_command_the_terminal() {
    let mut report = report();
    report["results"][0]["status"] = json!("\u{1b}[2J");
    refuses(&report.to_string())
        .stderr(contains("its field 'results[0]' cannot be read"))
        .stderr(contains("\\u{1b}[2J").and(contains("\u{1b}").not()));
}

#[test]
fn a_report_of_another_format_is_refused_by_its_number() {
    for format in [1, 3] {
        let mut other = report();
        other["schema_version"] = json!(format);
        let told = format!("its format ('schema_version') is {format}, and this vmbell reads 2");
        refuses(&other.to_string()).stderr(contains(told));
    }
}

#[test]
fn reports_of_other_rows_have_nothing_in_common() {
    let mut other = report();
    for row in other["results"].as_array_mut().unwrap() {
        row["command"] = json!(format!("other-{}", row["command"].as_str().unwrap()));
    }
    refuses(&other.to_string()).stderr(contains(
        "no row was measured on both sides: measure the same names on the same backend",
    ));
}

#[test]
fn reports_of_another_cpu_are_refused_unless_they_are_allowed() {
    let files = Files::new();
    let mut other = report();
    other["host"]["cpu"] = json!("Other \u{1b}[1m CPU");
    other["host"]["kernel"] = json!("Linux 99");
    let old = files.write("old.json", &report().to_string());
    let new = files.write("new.json", &other.to_string());
    vmbell(&["compare", &old, &new])
        .assert()
        .code(2)
        .stderr(contains("the reports are not comparable: CPU: "))
        .stderr(contains(
            "Other \\u{1b}[1m CPU now; --allow-different compares them",
        ))
        .stderr(contains("Linux 99").not());
    vmbell(&["compare", "--allow-different", &old, &new])
        .assert()
        .success()
        .stdout(contains("CPU: ").and(contains("Linux 99 now")));
}

#[test]
fn a_name_that_is_markup_is_escaped_everywhere() {
    let files = Files::new();
    let mut report = report();
    report["results"][0]["command"] = json!("<script>|\u{1b}[31m`x`");
    let path = files.write("a.json", &report.to_string());
    let terminal = stdout(&mut vmbell(&["compare", &path, &path]));
    assert!(terminal.contains("<script>|\\u{1b}[31m`x`"), "{terminal}");
    assert!(!terminal.contains('\u{1b}'), "{terminal}");
    let arguments = ["compare", &path, &path, "--export-markdown", "-"];
    let markdown = stdout(&mut vmbell(&arguments));
    assert!(
        markdown.contains("| \\<script>\\|\\\\u{1b}\\[31m\\`x\\` |"),
        "{markdown}"
    );
}

#[test]
fn a_report_against_itself_is_no_change_and_is_noticed() {
    let files = Files::new();
    let path = files.write("a.json", &scaled(1.0, 1).to_string());
    vmbell(&["compare", "--fail-above", "0%", &path, &path])
        .assert()
        .success()
        .stdout(contains("have a report in common").and(contains("slower").not()));
}

#[test]
fn a_report_that_is_named_twice_on_a_side_is_no_second_one() {
    let files = Files::new();
    let old = files.side("old", 1.0, 0);
    let twice = [old[0].clone(), old[0].clone()];
    compare(&[], &twice, &old[1..])
        .assert()
        .code(2)
        .stderr(contains("is named twice on the old side"));
}

#[test]
fn paths_without_a_report_are_errors() {
    let files = Files::new();
    let there = files.write("a.json", &report().to_string());
    let missing = files.0.path().join("missing.json");
    for wrong in [missing.as_path(), files.0.path(), Path::new("/dev/null")] {
        let wrong = wrong.to_str().unwrap();
        vmbell(&["compare", wrong, &there])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(format!("'{wrong}'")));
    }
    let nowhere = files.0.path().join("no/such/folder.json");
    vmbell(&["compare", &there, &there, "--export-json"])
        .arg(&nowhere)
        .assert()
        .code(2)
        .stderr(contains("cannot write to"));
}

#[test]
fn thresholds_that_are_no_percentage_are_wrong_usage() {
    for wrong in ["5", "0.05", "NaN%", "-5%", "five", "%", "inf%"] {
        vmbell(&["compare", "a.json", "b.json"])
            .arg(format!("--fail-above={wrong}"))
            .assert()
            .code(2)
            .stderr(contains("--fail-above"));
    }
}

#[test]
fn sides_that_are_not_told_apart_are_wrong_usage() {
    vmbell(&["compare", "a.json"])
        .assert()
        .code(2)
        .stderr(contains("name the new report too"));
    vmbell(&["compare", "a.json", "b.json", "c.json"])
        .assert()
        .code(2)
        .stderr(contains("put -- between them"));
    let files = Files::new();
    let (old, new) = (files.side("old", 1.0, 0), files.side("new", 1.0, 10));
    compare(&["--turns"], &old[1..], &new)
        .assert()
        .code(2)
        .stderr(contains(
            "as many old reports as new ones, and there are 7 and 8",
        ));
}

#[test]
fn a_row_that_fails_now_fails_a_comparison_with_a_threshold() {
    let files = Files::new();
    let old = files.side("old", 1.0, 1);
    let mut broken = scaled(1.0, 11);
    let rows = broken["results"].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row["status"] == "ok").unwrap();
    row["status"] = json!("failed");
    row["reason"] = json!("the guest faulted");
    row["samples_ns"] = json!([]);
    let name = row["command"].as_str().unwrap().to_owned();
    let new = [files.write("new.json", &broken.to_string())];
    compare(&[], &old, &new)
        .assert()
        .success()
        .stdout(contains(format!("Failed now: {name}")).and(contains("the guest faulted")));
    compare(&["--fail-above", "50%"], &old, &new)
        .assert()
        .code(1)
        .stderr(contains(format!("failed now: {name}")));
}

#[test]
fn a_row_that_is_not_measured_now_fails_a_comparison_with_a_threshold() {
    let files = Files::new();
    let old = files.side("old", 1.0, 1);
    let is_ok = |row: &Value| row["status"] == "ok";
    let (mut skipped, mut missing) = (scaled(1.0, 11), scaled(1.0, 11));
    let rows = skipped["results"].as_array_mut().unwrap();
    let gone = rows.iter_mut().filter(|row| is_ok(row)).skip(1);
    let mut names = Vec::new();
    for row in gone {
        row["status"] = json!("skipped");
        row["reason"] = json!("this host has no KVM");
        row["samples_ns"] = json!([]);
        names.push(row["command"].as_str().unwrap().to_owned());
    }
    assert!(!names.is_empty());
    let rows = missing["results"].as_array_mut().unwrap();
    rows.retain(|row| !names.iter().any(|name| row["command"] == **name));
    for (name, report) in [("skipped.json", skipped), ("missing.json", missing)] {
        let new = [files.write(name, &report.to_string())];
        compare(&["--fail-above", "50%"], &old, &new)
            .assert()
            .code(1)
            .stderr(starts_with("not measured now").and(contains(&names[0])));
        for passes in [&["--fail-above", "50%", "--allow-missing"][..], &[]] {
            compare(passes, &old, &new).assert().success().stderr("");
        }
    }
    compare(&["--allow-missing"], &old, &old[1..])
        .assert()
        .code(2)
        .stderr(contains("--fail-above"));
}

#[test]
fn a_comparison_without_a_single_ratio_fails_if_it_has_a_threshold() {
    let files = Files::new();
    let (old, new) = (files.side("old", 0.0, 1), files.side("new", 1.0, 11));
    compare(&["--fail-above", "50%"], &old, &new)
        .assert()
        .code(1)
        .stderr(starts_with("nothing was compared, without a ratio are: "));
    compare(&[], &old, &new).assert().success().stderr("");
}

#[test]
fn an_export_replaces_no_report_that_is_compared() {
    let files = Files::new();
    let (old, new) = (files.side("old", 1.0, 1), files.side("new", 1.0, 11));
    let before = std::fs::read(&new[0]).unwrap();
    let link = files.0.path().join("link.json");
    std::os::unix::fs::symlink(&new[0], &link).unwrap();
    for export in [new[0].as_str(), link.to_str().unwrap()] {
        compare(&["--export-json", export], &old, &new)
            .assert()
            .code(2)
            .stderr(contains("would replace the report"));
    }
    let both = files.0.path().join("both");
    let other = files.0.path().join(".").join("both");
    let exports = [
        "--export-json",
        both.to_str().unwrap(),
        "--export-markdown",
        other.to_str().unwrap(),
    ];
    compare(&exports, &old, &new)
        .assert()
        .code(2)
        .stderr(contains("two exports go to"));
    assert_eq!(std::fs::read(&new[0]).unwrap(), before);
}

#[test]
fn an_option_behind_the_dashes_is_said_to_stand_in_the_wrong_place() {
    let files = Files::new();
    let (old, mut new) = (files.side("old", 1.0, 1), files.side("new", 1.0, 11));
    new.push("--fail-above".to_owned());
    compare(&[], &old, &new)
        .assert()
        .code(2)
        .stderr(contains("cannot read '--fail-above'").and(contains("options go before")));
}

#[test]
fn the_name_of_a_file_cannot_command_the_terminal() {
    let files = Files::new();
    let new = files.write("new.json", &report().to_string());
    for text in ["{", ""] {
        let old = files.write("\u{1b}[31mx.json", text);
        for command in [
            vec!["compare", &old, &new],
            vec!["report", &old, "-o", "/dev/null"],
        ] {
            vmbell(&command)
                .assert()
                .failure()
                .stderr(contains("u{1b}[31mx.json").and(contains("\u{1b}").not()));
        }
    }
    vmbell(&["compare", "-", &new])
        .assert()
        .code(2)
        .stderr(contains("reports are files here"));
}
