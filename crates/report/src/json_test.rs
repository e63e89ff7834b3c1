//! Tests of the JSON.

use super::*;
use crate::sample;

#[test]
fn the_json() {
    insta::assert_snapshot!(json(&sample::report()));
}

#[test]
fn what_is_written_can_be_read() {
    let report = sample::report();
    assert_eq!(parse(&json(&report)).unwrap(), report);
}

#[test]
fn exits_are_written_by_the_names_of_kvm_too() {
    let value: serde_json::Value = serde_json::from_str(&json(&sample::counted())).unwrap();
    assert_eq!(value["timing"], "emulated");
    assert_eq!(value["unit"], "instructions");
    let row = &value["results"][0];
    assert_eq!(row["instructions"], 14_200.0);
    assert_eq!(row["exits"]["total"], 1.0);
    assert_eq!(row["exits"]["userspace"], 1.0);
    assert_eq!(value["results"][2]["exits"]["userspace"], 0.0);
    assert_eq!(value["results"][6]["exits"], serde_json::Value::Null);
}

#[test]
fn exits_that_are_not_counted_are_null() {
    let mut report = sample::report();
    sample::of(&mut report.common.results[0])
        .exits
        .as_mut()
        .unwrap()
        .total = None;
    let text = json(&report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let exits = serde_json::json!({"total": null, "userspace": 1.0});
    assert_eq!(value["results"][0]["exits"], exits);
    assert_eq!(parse(&text).unwrap(), report);
}

#[test]
fn the_oldest_file_still_parses() {
    let report = parse(include_str!("../tests/data/schema1/first.json")).unwrap();
    assert_eq!(report.common.results[0].command, "portio-no-eventfd");
    assert!(report.common.results.iter().any(|row| !row.is_ok()));
}

#[test]
fn a_file_without_the_later_fields_parses() {
    let mut value: serde_json::Value = serde_json::from_str(&json(&sample::report())).unwrap();
    for field in ["highlights", "suite", "timing", "unit"] {
        value.as_object_mut().unwrap().remove(field);
    }
    for row in value["results"].as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        for field in [
            "ops",
            "spread",
            "outliers",
            "outliers_shift",
            "reference",
            "percentiles_of",
            "parameters",
        ] {
            row.remove(field);
        }
    }
    assert!(parse(&value.to_string()).is_ok());
}

#[test]
fn times_are_seconds_in_the_file_and_nanoseconds_elsewhere() {
    let report = sample::report();
    let value: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let row = &value["results"][0];
    assert_eq!(report.common.results[0].median(), Some(14_200.0));
    assert_eq!(row["median"], 14_200e-9);
    assert_eq!(row["user"], 3550e-9);
    assert_eq!(row["times"][0], 13_916e-9);
    assert_eq!(row["samples_ns"][0], 13_916.0);
    assert_eq!(row["exit_codes"], serde_json::json!([0, 0, 0, 0]));
}

#[test]
fn another_version_is_an_error_that_names_it() {
    let error = parse(r#"{"schema_version": 3}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "schema version 3 is newer than 2, the newest that this version reads"
    );
}

#[test]
fn what_is_no_report_is_an_error() {
    for text in ["", "[]", "{}", r#"{"results": []}"#] {
        assert!(matches!(parse(text), Err(ParseError::Shape(_))), "{text:?}");
    }
}

#[test]
fn vmms_can_be_read() {
    let vmms = vec![
        sample::vmm("qemu-pc", 1, false),
        sample::vmm("other", 0, true),
    ];
    let mut report = sample::of_vmms(vmms.clone(), vec![sample::of_vmm("qemu-pc", "cpuid", 9.0)]);
    assert_eq!(parse(&json(&report)).unwrap(), report);
    report.kind = crate::Kind::Net(vmms);
    assert_eq!(parse(&json(&report)).unwrap(), report);
}

#[test]
fn what_is_counted_can_be_read() {
    for report in [sample::events(), sample::perf_stat()] {
        assert_eq!(parse(&json(&report)).unwrap(), report);
    }
}
