//! Tests of the JSON, and of reading text that may not be a report.

use super::*;
use crate::sample::{self, assert_recorded};

#[test]
fn a_report_is_written_as_in_the_file_that_other_tests_read() {
    assert_recorded("tests/data/report.json", &json(&sample::report()));
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
    sample::of(&mut report.results[0])
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
fn times_are_seconds_in_the_file_and_nanoseconds_elsewhere() {
    let report = sample::report();
    let value: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let row = &value["results"][0];
    assert_eq!(report.results[0].median(), Some(14_200.0));
    assert_eq!(row["median"], 14_200e-9);
    assert_eq!(row["user"], 3550e-9);
    assert_eq!(row["times"][0], 13_916e-9);
    assert_eq!(row["samples_ns"][0], 13_916.0);
    assert_eq!(row["exit_codes"], serde_json::json!([0, 0, 0, 0]));
}

#[test]
fn vmms_can_be_read() {
    let vmms = vec![
        sample::vmm("qemu-pc", 1, false),
        sample::vmm("other", 0, true),
    ];
    let mut report = sample::of_vmms(vmms.clone(), vec![sample::of_vmm("qemu-pc", "cpuid", 9.0)]);
    assert_eq!(parse(&json(&report)).unwrap(), report);
    report.kind = crate::Kind::Net { vmms };
    assert_eq!(parse(&json(&report)).unwrap(), report);
}

#[test]
fn what_is_counted_can_be_read() {
    for report in [sample::events(), sample::rings()] {
        assert_eq!(parse(&json(&report)).unwrap(), report);
    }
}

/// The sample report with a change.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_str(&json(&sample::report())).unwrap();
    change(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

/// The error and its sources, as the command prints them.
fn error(text: &str) -> String {
    let error = parse(text).unwrap_err();
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[test]
fn a_field_of_another_type_is_named_with_its_line() {
    let text = changed(|report| report["host"]["cpus"] = serde_json::json!("two"));
    let line = text
        .lines()
        .position(|line| line.contains("\"two\""))
        .unwrap()
        + 1;
    let of_host = error(&text);
    assert!(
        of_host.starts_with("its field 'host.cpus' cannot be read: invalid type"),
        "{of_host}"
    );
    assert!(of_host.contains(&format!("at line {line} ")), "{of_host}");
    let text = changed(|report| report["results"][2]["samples_ns"][1] = serde_json::json!("fast"));
    let of_row = error(&text);
    assert!(of_row.starts_with("its field 'results[2]"), "{of_row}");
}

#[test]
fn a_field_that_is_missing_is_named() {
    let text = changed(|report| {
        report.as_object_mut().unwrap().remove("host");
    });
    let error = error(&text);
    assert!(
        error.starts_with("its outermost object cannot be read: missing field `host`"),
        "{error}"
    );
}

#[test]
fn a_report_that_was_cut_short_says_where() {
    let text = json(&sample::report());
    for end in (1..text.len()).step_by(97) {
        let Some(cut) = text.get(..end) else { continue };
        let error = error(cut);
        assert!(
            error.starts_with("it is not whole JSON: reading ended at "),
            "{error}"
        );
        assert!(error.contains(" at line "), "{error}");
    }
    let error = error(text[..text.len() / 2].trim_end());
    assert!(
        error.contains("reading ended at its field 'results["),
        "{error}"
    );
}

#[test]
fn what_follows_a_report_is_an_error() {
    let twice = json(&sample::report()).repeat(2);
    assert!(error(&twice).starts_with("it is not whole JSON: reading ended at its end: trailing"));
}

#[test]
fn a_field_that_is_ignored_and_is_no_json_is_an_error() {
    let text = json(&sample::report());
    for ignored in ["1e999", &"[".repeat(200)] {
        let text = text.replacen(
            "\"host\": {",
            &format!("\"host\": {{\"later\": {ignored},"),
            1,
        );
        let error = error(&text);
        assert!(
            error.starts_with("it is not whole JSON: reading ended at "),
            "{error}"
        );
    }
}

#[test]
fn files_of_others_are_named() {
    assert_eq!(error(""), "it is empty");
    assert_eq!(error(" \n"), "it is empty");
    assert_eq!(error("\u{feff}"), "it is empty");
    let foreign = "it is JSON but not a vmbell report: it has no 'schema_version'";
    for text in ["[]", "{}", "3", r#"{"results": []}"#] {
        assert_eq!(error(text), foreign, "{text}");
    }
    let hyperfine =
        r#"{"results": [{"command": "sleep 1", "mean": 1.0, "times": [1.0], "exit_codes": [0]}]}"#;
    assert!(error(hyperfine).starts_with("it is a report of hyperfine, not of vmbell"));
    for text in ["name,ns\na,3\n", "\u{7f}ELF"] {
        assert!(error(text).starts_with("it is not whole JSON"), "{text}");
    }
}

#[test]
fn another_format_is_refused_by_its_number() {
    for found in ["1", "3", "\"7\"", "-2", "2.5"] {
        let of_file: Value = serde_json::from_str(found).unwrap();
        let text = changed(|report| report["schema_version"] = of_file.clone());
        let wanted = format!("its format ('schema_version') is {found}, and this vmbell reads 2: ");
        assert!(error(&text).starts_with(&wanted), "{}", error(&text));
        // The other fields do not matter.
        assert!(error(&format!(r#"{{"schema_version": {found}}}"#)).starts_with(&wanted));
    }
}

#[test]
fn a_measured_row_has_samples_and_operations_of_each() {
    let text = changed(|report| report["results"][0]["samples_ns"] = serde_json::json!([]));
    let none = "its field 'results[0]' cannot be read: a measured row has no sample at line ";
    assert!(error(&text).starts_with(none), "{}", error(&text));
    let text = changed(|report| report["results"][0]["ops"] = serde_json::json!([1, 2]));
    let few = "its row 'portio-no-eventfd' has 2 numbers of operations for 4 samples";
    assert_eq!(error(&text), few);
}

#[test]
fn a_number_that_no_measurement_gives_is_refused_and_named() {
    let text = changed(|report| report["results"][0]["samples_ns"][1] = serde_json::json!(1e308));
    let told = "its field 'results[0].samples_ns[1]' is 1e308, which no measurement gives";
    assert!(error(&text).starts_with(told), "{}", error(&text));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_report() {
    let marked = format!("\u{feff}{}", json(&sample::report()));
    assert_eq!(parse(&marked).unwrap(), sample::report());
}

#[test]
fn what_a_later_vmbell_adds_is_ignored() {
    let text = changed(|report| {
        report["weather"] = serde_json::json!({"rain": true});
        report["results"][0]["colour"] = serde_json::json!("red");
    });
    assert_eq!(parse(&text).unwrap(), sample::report());
}

#[test]
fn the_schema_in_the_docs_is_that_of_the_types() {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings
        .into_generator()
        .into_root_schema_for::<ReportFile>();
    let made = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    assert_recorded(
        "../../docs/report.schema.json",
        &made.replace("`None`", "null"),
    );
}
