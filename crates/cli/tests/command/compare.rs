//! `vmbell compare`: exit statuses, exports, and invalid files. Its results and their format are tested in
//! vmbell-report.

use std::fs;
use std::path::Path;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, starts_with};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::common::{quick, read_json, stdout, vmbell};

fn report() -> Value {
    serde_json::from_str(include_str!("../../../report/tests/data/report.json")).unwrap()
}

/// The measured rows of a report.
fn measured(report: &mut Value) -> impl Iterator<Item = &mut Value> {
    let rows = report["results"].as_array_mut().unwrap().iter_mut();
    rows.filter(|row| row["status"] == "ok")
}

/// Turns a measured row into one without samples, and returns its name.
fn without_samples(row: &mut Value, status: &str, reason: &str) -> String {
    (row["status"], row["reason"]) = (json!(status), json!(reason));
    row["samples_ns"] = json!([]);
    row["command"].as_str().unwrap().to_owned()
}

/// A report whose measured rows take `factor` of the time. `seed` determines how they differ between rounds.
fn scaled(factor: f64, seed: u64) -> Value {
    let mut report = report();
    report["duration"] = json!(seed);
    for row in measured(&mut report) {
        let noise = (0..10).map(|round| (seed * 31 + round * 17) % 19);
        let samples = noise.map(|noise| 1000.0 * factor * (1.0 + noise as f64 / 1000.0));
        let mut samples: Vec<f64> = samples.collect();
        row["samples_ns"] = json!(samples);
        row["ops"] = json!(vec![1000; samples.len()]);
        samples.sort_by(f64::total_cmp);
        row["median"] = json!((samples[4] + samples[5]) / 2e9);
    }
    report
}

/// A folder of reports.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: impl ToString) -> String {
        let path = self.path(name);
        fs::write(&path, text.to_string()).unwrap();
        path
    }

    /// Eight reports of one side that take `factor` of the time.
    fn side(&self, name: &str, factor: f64, first: u64) -> Vec<String> {
        let one = |seed| self.write(&format!("{name}{seed}.json"), scaled(factor, seed));
        (first..first + 8).map(one).collect()
    }

    /// Eight reports for each side. The new side takes `factor` of the time.
    fn sides(&self, factor: f64) -> (Vec<String>, Vec<String>) {
        (self.side("old", 1.0, 0), self.side("new", factor, 10))
    }
}

fn compare(options: &str, old: &[String], new: &[String]) -> assert_cmd::Command {
    let mut command = vmbell(&format!("compare {options}"));
    command.args(old).arg("--").args(new);
    command
}

/// What `compare` prints if the old report is this text.
fn refuses(text: impl ToString) -> assert_cmd::assert::Assert {
    let files = Files::new();
    let (old, new) = (
        files.write("old.json", text),
        files.write("new.json", report()),
    );
    vmbell(&["compare", &old, &new]).assert().code(2).stdout("")
}

#[test]
fn two_benches_are_compared_and_named() {
    let files = Files::new();
    let [old, new] = ["old.json", "new.json"].map(|name| files.path(name));
    for path in [&old, &new] {
        quick(&["debug-double", "--export-json", path])
            .assert()
            .success();
    }
    let text = stdout(&mut vmbell(&["compare", &old, &new]));
    let told = text.starts_with("2 inconclusive\n1 report before, 1 report now;");
    assert!(told && !text.contains("debug-double"), "{text}");
    let text = stdout(&mut vmbell(&["compare", "-v", &old, &new]));
    assert!(text.contains("debug-double"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn a_side_that_is_slower_fails_above_the_threshold_and_not_below_it() {
    let files = Files::new();
    let (old, new) = files.sides(1.2);
    for turns in ["--turns", ""] {
        let above = |threshold: &str, old: &[String], new: &[String]| {
            compare(&format!("{turns} --fail-above {threshold}"), old, new).assert()
        };
        let slower = starts_with("slower by more than 5.0 %: ");
        above("5%", &old, &new)
            .code(1)
            .stdout(contains("slower"))
            .stderr(slower);
        above("30%", &old, &new).success().stderr("");
        above("5%", &new, &old).success().stdout(contains("faster"));
    }
    let not_slower = || contains("slower").not();
    let same = files.side("same", 1.0, 20);
    let among_same = compare("--fail-above 0%", &old, &same).assert().success();
    among_same.stdout(contains("same").and(not_slower()));
    let single = compare("--fail-above 0%", &old[..1], &old[..1])
        .assert()
        .code(1);
    single
        .stdout(contains("have a report in common").and(contains("No verdict on any row")))
        .stderr(starts_with("not enough data for --fail-above: "));
}

#[test]
fn instructions_that_are_more_expensive_fail_with_one_report_per_side() {
    let files = Files::new();
    let counted = |factor, seed| {
        let mut report = scaled(factor, seed);
        report["timing"] = json!("emulated");
        report["unit"] = json!("instructions");
        report
    };
    let old = [files.write("old.json", counted(1.0, 0))];
    let new = [files.write("new.json", counted(1.2, 1))];
    compare("--fail-above 5%", &old, &new)
        .assert()
        .code(1)
        .stdout(contains("more expensive").and(contains("slower").not()))
        .stderr(starts_with("more expensive by more than 5.0 %: "));
    compare("--fail-above 5%", &new, &old)
        .assert()
        .success()
        .stdout(contains("cheaper").and(contains("faster").not()));
}

#[test]
fn a_comparison_is_exported_and_repeats_itself_and_has_the_style_that_is_asked_for() {
    let files = Files::new();
    let (old, new) = files.sides(1.2);
    let (path, markdown) = (files.path("out.json"), files.path("out.md"));
    let exports = format!("--export-json {path} --export-markdown {markdown}");
    compare(&exports, &old, &new).assert().success();
    let json = read_json(Path::new(&path));
    assert_eq!(json["kind"], "comparison");
    assert_eq!(json["old_reports"], 8);
    assert_eq!(json["rows"][0]["verdict"], "slower");
    let markdown = fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("| **slower** |"), "{markdown}");
    let on_stdout = stdout(&mut compare("--export-json -", &old, &new));
    assert_eq!(serde_json::from_str::<Value>(&on_stdout).unwrap(), json);
    let color = stdout(&mut compare("--style color", &old, &new));
    assert!(color.contains("\x1b[31mslower"), "{color}");
    assert_eq!(stdout(&mut compare("--style none", &old, &new)), "");
}

#[test]
fn a_file_that_is_no_report_is_refused_with_its_name() {
    refuses("").stderr(contains("old.json': it is empty"));
    refuses("\u{feff}").stderr(contains("old.json': it is empty"));
    let text = serde_json::to_string_pretty(&report()).unwrap();
    refuses(&text[..text.len() / 2]).stderr(contains("old.json': it is not whole JSON"));
    let files = Files::new();
    let there = files.write("a.json", report());
    for wrong in [
        files.path("missing.json"),
        files.path(""),
        "/dev/null".to_owned(),
    ] {
        let assert = vmbell(&["compare", &wrong, &there]).assert().code(2);
        assert.stdout("").stderr(contains(format!("'{wrong}'")));
    }
    let stdin = vmbell(&["compare", "-", &there]).assert().code(2);
    stdin.stderr(contains("reports are files here"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_report() {
    let files = Files::new();
    let marked = files.write("marked.json", format!("\u{feff}{}", report()));
    let plain = files.write("plain.json", report());
    for line in [
        format!("compare {marked} {plain}"),
        format!("report {marked} {plain} -o /dev/null"),
        format!("bench debug-constant --only --runs 1 --baseline {marked}"),
    ] {
        let assert = vmbell(&line).assert();
        assert.stderr(contains("not whole JSON").not());
    }
}

#[test]
fn what_is_shown_is_ascii_if_the_locale_is_not_utf8() {
    let files = Files::new();
    let mut report = scaled(10.0, 1);
    report["host"]["cpu"] = json!("a CPU");
    let path = files.write("a.json", report);
    let shown = |locale: &str| {
        let mut command = vmbell(&["compare", "-v", &path, &path]);
        stdout(command.env("LC_ALL", locale))
    };
    let (plain, utf8) = (shown("C"), shown("C.UTF-8"));
    assert!(plain.is_ascii() && plain.contains(" us "), "{plain}");
    assert_eq!(utf8.replace('µ', "u"), plain);
    let mut bench = quick("debug-double --only --verbose --no-warnings");
    let text = stdout(bench.env("LC_ALL", "C"));
    assert!(text.is_ascii() && text.contains("+- spread"), "{text}");
    let mut export = vmbell(&["compare", &path, &path, "--export-markdown", "-"]);
    assert!(stdout(export.env("LC_ALL", "C")).contains("µs"));
}

#[test]
fn text_of_a_file_and_its_name_cannot_command_the_terminal() {
    let mut quoted = report();
    quoted["results"][0]["status"] = json!("\u{1b}[2J");
    refuses(quoted)
        .stderr(contains("its field 'results[0]' cannot be read"))
        .stderr(contains("\\u{1b}[2J").and(contains("\u{1b}").not()));
    let files = Files::new();
    let new = files.write("new.json", report());
    for text in ["{", ""] {
        let old = files.write("\u{1b}[31mx.json", text);
        let commands: [&[&str]; 2] = [
            &["compare", &old, &new],
            &["report", &old, "-o", "/dev/null"],
        ];
        for command in commands {
            let assert = vmbell(command).assert().failure();
            assert.stderr(contains("u{1b}[31mx.json").and(contains("\u{1b}").not()));
        }
    }
}

#[test]
fn reports_of_another_cpu_are_refused_unless_they_are_allowed() {
    let files = Files::new();
    let mut other = report();
    other["host"]["cpu"] = json!("Other \u{1b}[1m CPU");
    other["host"]["kernel"] = json!("Linux 99");
    let (old, new) = (
        files.write("old.json", report()),
        files.write("new.json", other),
    );
    let refused = vmbell(&["compare", &old, &new]).assert().code(2);
    refused
        .stderr(contains("the reports are not comparable: CPU: "))
        .stderr(contains(
            "Other \\u{1b}[1m CPU now; --allow-different compares them",
        ))
        .stderr(contains("Linux 99").not());
    let allowed = vmbell(&["compare", "--allow-different", &old, &new]).assert();
    let both = contains("CPU: ").and(contains("Linux 99 now"));
    allowed.success().stdout(both);
}

#[test]
fn what_to_do_about_reports_that_have_no_row_in_common_is_told() {
    let mut other = report();
    for row in measured(&mut other) {
        row["command"] = json!(format!("other-{}", row["command"].as_str().unwrap()));
    }
    refuses(other).stderr(contains(
        "no row was measured on both sides: measure the same names on the same backend",
    ));
}

#[test]
fn a_report_that_is_named_twice_on_a_side_is_no_second_one() {
    let files = Files::new();
    let old = files.side("old", 1.0, 0);
    let twice = [old[0].clone(), old[0].clone()];
    let assert = compare("", &twice, &old[1..]).assert().code(2);
    assert.stderr(contains("is named twice on the old side"));
}

#[test]
fn sides_and_options_in_the_wrong_place_are_wrong_usage() {
    let files = Files::new();
    let (old, mut new) = files.sides(1.0);
    let assert = compare("--turns", &old[1..], &new).assert().code(2);
    let told = "as many old reports as new ones, and there are 7 and 8";
    assert.stderr(contains(told));
    let assert = compare("--allow-missing", &old, &old[1..]).assert().code(2);
    assert.stderr(contains("--fail-above"));
    new.push("--fail-above".to_owned());
    let assert = compare("", &old, &new).assert().code(2);
    assert.stderr(contains("cannot read '--fail-above'").and(contains("options go before")));
}

#[test]
fn a_row_that_fails_now_fails_a_comparison_with_a_threshold() {
    let files = Files::new();
    let old = files.side("old", 1.0, 1);
    let mut broken = scaled(1.0, 11);
    let row = measured(&mut broken).next().unwrap();
    let name = without_samples(row, "failed", "the guest faulted");
    let new = [files.write("new.json", broken)];
    let shown = contains(format!("Failed now: {name}")).and(contains("the guest faulted"));
    compare("", &old, &new).assert().success().stdout(shown);
    let told = contains(format!("failed now: {name}"));
    let assert = compare("--fail-above 50%", &old, &new).assert();
    assert.code(1).stderr(told);
}

#[test]
fn a_row_that_is_not_measured_now_fails_a_comparison_with_a_threshold() {
    let files = Files::new();
    let old = files.side("old", 1.0, 1);
    let (mut skipped, mut missing) = (scaled(1.0, 11), scaled(1.0, 11));
    let gone = measured(&mut skipped).skip(1);
    let names: Vec<_> = gone
        .map(|row| without_samples(row, "skipped", "this host has no KVM"))
        .collect();
    assert!(!names.is_empty());
    let rows = missing["results"].as_array_mut().unwrap();
    rows.retain(|row| !names.iter().any(|name| row["command"] == **name));
    for report in [skipped, missing] {
        // With fewer reports no row could have a verdict, and the missing row would not be judged.
        let new = ["new1.json", "new2.json"].map(|name| files.write(name, &report));
        let told = starts_with("not measured now").and(contains(&names[0]));
        let assert = compare("--fail-above 50%", &old, &new).assert();
        assert.code(1).stderr(told);
        for passes in ["--fail-above 50% --allow-missing", ""] {
            compare(passes, &old, &new).assert().success().stderr("");
        }
    }
}

#[test]
fn a_comparison_without_a_single_ratio_fails_if_it_has_a_threshold() {
    let files = Files::new();
    let (old, new) = (files.side("old", 0.0, 1), files.side("new", 1.0, 11));
    let told = starts_with("not enough data for --fail-above: no row could be found to be slower");
    let assert = compare("--fail-above 50%", &old, &new).assert();
    assert.code(1).stderr(told);
    compare("", &old, &new).assert().success().stderr("");
}

#[test]
fn an_export_replaces_no_report_that_is_compared_and_no_other_export() {
    let files = Files::new();
    let (old, new) = files.sides(1.0);
    let before = fs::read(&new[0]).unwrap();
    let link = files.path("link.json");
    std::os::unix::fs::symlink(&new[0], &link).unwrap();
    let (both, other) = (files.path("both"), files.path("./both"));
    for (exports, told) in [
        (
            format!("--export-json {}", new[0]),
            "would replace the report",
        ),
        (format!("--export-json {link}"), "would replace the report"),
        (
            format!("--export-json {both} --export-markdown {other}"),
            "two exports go to",
        ),
        (
            format!("--export-json {}", files.path("no/such/folder.json")),
            "cannot write to",
        ),
    ] {
        let assert = compare(&exports, &old, &new).assert().code(2);
        assert.stderr(contains(told));
    }
    assert_eq!(fs::read(&new[0]).unwrap(), before);
}
