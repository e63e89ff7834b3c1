//! What `--export-json` writes conforms to `docs/report.schema.json`.

use std::path::Path;

use super::common::{quick, read_json, stdout, vmbell};
use kit::schema::violations;
use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/report.schema.json")).unwrap()
}

/// Reads a report, which must conform to the schema.
pub fn read_valid(path: &Path) -> Value {
    let report = read_json(path);
    assert_valid(&report);
    report
}

fn assert_valid(report: &Value) {
    let found = violations(&schema(), report);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_written_report_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.json");
    quick("debug-double debug-constant debug-skip debug-fail floor-*")
        .arg("--export-json")
        .arg(&path)
        .assert()
        .code(1);
    let report = read_valid(&path);
    assert_eq!(report["tool"]["name"], "vmbell");
    let status = |name: &str| {
        let results = report["results"].as_array().unwrap();
        let row = results.iter().find(|row| row["command"] == name).unwrap();
        row["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("debug-constant"), "ok");
    assert_eq!(status("debug-skip"), "skipped");
    assert_eq!(status("debug-fail"), "failed");
}

#[test]
fn a_row_is_described_in_the_words_of_the_list() {
    let list: Value = serde_json::from_str(&stdout(&mut vmbell("list --json"))).unwrap();
    let list = list.as_array().unwrap();
    let listed = list.iter().find(|row| row["name"] == "floor-getppid");
    let report = stdout(&mut quick("floor-getppid --export-json -"));
    let report: Value = serde_json::from_str(&report).unwrap();
    let described = &report["results"][0]["description"];
    assert!(described.is_string(), "{report}");
    assert_eq!(*described, listed.unwrap()["description"]);
}

#[test]
fn what_eoi_and_rings_print_as_json_is_valid_too() {
    for words in [
        "eoi --backend usermode --deterministic",
        "rings --bufs 500 --cpu 0 --one-thread",
    ] {
        let text = stdout(&mut vmbell(&format!("bench {words} --export-json -")));
        assert_valid(&serde_json::from_str(&text).unwrap());
        let report = vmbell_report::parse(&text).unwrap();
        assert!(report.results.len() > 1 && report.results.iter().all(|row| row.is_ok()));
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let text = include_str!("../../../report/tests/data/report.json");
    let mut report: Value = serde_json::from_str(text).unwrap();
    assert_valid(&report);
    report["schema_version"] = 1.into();
    report["results"][0]["status"] = "fine".into();
    report["results"][2]["samples_ns"][0] = "fast".into();
    report["results"][1]["new_field"] = 1.into();
    report["host"].as_object_mut().unwrap().remove("kernel");
    // A missing field is reported by its name, and again by the rule that requires it.
    assert_eq!(violations(&schema(), &report).len(), 6);
}
