//! What `vmbell bench` writes and prints: exports, styles, units and the width of its table.

use super::common::{quick, read_json, stdout};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

#[test]
fn a_bad_export_path_is_found_before_measuring() {
    // This entry never ends, so the command can only fail before it starts.
    quick("debug-loop --export-json /nonexistent/out.json")
        .assert()
        .code(1)
        .stderr(contains("/nonexistent/out.json").and(contains("No such file")));
}

#[test]
fn an_error_of_an_export_names_the_file_that_the_user_named() {
    // /proc does not support unnamed temporary files, so one with a hidden name would be created.
    quick("debug-loop --export-json /proc/vmbell.json")
        .assert()
        .code(1)
        .stderr(contains("cannot write to '/proc/vmbell.json'").and(contains(".vmbell-").not()));
}

#[test]
fn metrics_replace_the_file_as_a_whole_and_others_may_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmbell.prom");
    std::fs::write(&path, "of an earlier run").unwrap();
    quick("debug-constant --export-openmetrics")
        .arg(&path)
        .assert()
        .code(0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# HELP vmbell_run_info"), "{text}");
    assert!(text.contains("vmbell_operation_seconds{scenario=\"debug-constant\",group=\"debug\""));
    // A textfile collector reads every *.prom, so the temporary file must be gone.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn json_on_stdout_is_pure_and_the_table_goes_to_stderr() {
    let output = quick("debug-constant --export-json -").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["results"][0]["command"], "debug-constant");
    assert_eq!(
        report["results"][0]["exits"],
        serde_json::json!({"total": 1.0, "userspace": 0.0})
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("debug-constant"), "{stderr}");
}

#[test]
fn all_exports_are_written_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    quick("debug-constant debug-double")
        .arg("--export-json")
        .arg(path("a.json"))
        .arg("--export-markdown")
        .arg(path("a.md"))
        .arg("--export-csv")
        .arg(path("a.csv"))
        .assert()
        .success();
    assert_eq!(read_json(&path("a.json"))["schema_version"], 2);
    let markdown = std::fs::read_to_string(path("a.md")).unwrap();
    assert!(
        markdown.contains("| `debug-double` | 200 ns |"),
        "{markdown}"
    );
    let csv = std::fs::read_to_string(path("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 3, "{csv}");
    assert!(csv.contains("debug-constant,debug,host,sleep,1,"), "{csv}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn styles_do_what_they_are_called() {
    let with = |style: &str| stdout(&mut quick(&["debug-constant", "--style", style]));
    assert!(with("color").contains("\x1b["));
    assert!(with("full").contains("\x1b["));
    for style in ["auto", "basic", "nocolor"] {
        assert!(!with(style).contains('\x1b'), "{style}");
    }
    assert_eq!(with("none"), "");
}

#[test]
fn rows_can_be_sorted_by_median() {
    let is_first = |sort: &str, name: &str, other: &str| {
        let mut command = quick("debug-double debug-constant --verbose");
        let text = stdout(command.args(["--sort", sort]));
        let row = |name: &str| text.find(&format!("\n{name} ")).unwrap();
        row(name) < row(other)
    };
    assert!(is_first("auto", "debug-double", "debug-constant"));
    assert!(is_first("median", "debug-constant", "debug-double"));
}

#[test]
fn more_columns_on_demand() {
    quick("debug-constant --verbose")
        .assert()
        .success()
        .stdout(contains("mean").and(contains("CPU/op")));
}

#[test]
fn a_full_disk_is_an_error_and_not_a_silent_loss() {
    quick("debug-constant --export-json /dev/full")
        .assert()
        .code(1)
        .stdout(contains("debug-constant"))
        .stderr(contains("/dev/full"));
}

#[test]
fn no_line_of_the_table_is_wider_than_the_terminal() {
    let mut command = quick("portio-wildcard-eventfd floor-getppid --verbose");
    let text = stdout(command.env("COLUMNS", "72"));
    for line in text.lines() {
        assert!(line.chars().count() <= 72, "{line}");
    }
    assert!(text.contains("portio-wildcard-eventfd"), "{text}");
}

#[test]
fn all_times_are_in_the_unit_that_is_asked_for() {
    for (unit, mark) in [("ns", " ns"), ("us", " µs")] {
        let rows = [
            "debug-constant",
            "--time-unit",
            unit,
            "--export-markdown",
            "-",
        ];
        let mut command = quick(&rows);
        let text = stdout(command.args(["--style", "none"]));
        let row = text.lines().find(|line| line.contains("`debug-constant`"));
        let row = row.unwrap();
        assert!(row.contains(mark), "{row}");
    }
}

#[test]
fn no_bar_is_written_where_there_is_no_terminal() {
    let mut command = quick("debug-constant debug-double");
    let text = stdout(command.env("COLUMNS", "200"));
    assert!(!text.contains('█'), "{text}");
}

#[test]
fn two_exports_to_one_file_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let other = folder.path().join(".").join("x");
    quick("debug-constant --export-json")
        .arg(&path)
        .arg("--export-csv")
        .arg(&other)
        .assert()
        .code(2)
        .stderr(contains("two exports go to"));
    assert!(!path.exists());
}
