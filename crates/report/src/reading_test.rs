//! Tests of reading what may be no report.

use serde_json::json;

use super::*;
use crate::{json, sample};

/// The sample report with a change.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_str(&json(&sample::report())).unwrap();
    change(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

/// The error and its sources, as the command prints them.
fn error(text: &str) -> String {
    let error = parse_any(text).unwrap_err();
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[test]
fn a_report_of_this_version_is_read_without_a_warning() {
    let report = sample::report();
    let warnings = Vec::new();
    assert_eq!(
        parse_any(&json(&report)).unwrap(),
        Reading { report, warnings }
    );
}

#[test]
fn a_newer_report_is_read_as_far_as_it_is_known() {
    let text = changed(|report| {
        report["schema_version"] = json!(3);
        report["weather"] = json!({"rain": true});
        report["results"][0]["colour"] = json!("red");
    });
    let reading = parse_any(&text).unwrap();
    assert_eq!(
        reading.report.common.results,
        sample::report().common.results
    );
    assert_eq!(reading.warnings.len(), 1);
    assert!(reading.warnings[0].starts_with("schema version 3 is newer than 2"));
}

#[test]
fn a_newer_report_whose_fields_have_other_types_is_an_error_that_names_one() {
    let text = changed(|report| {
        report["schema_version"] = json!(3);
        report["results"][1]["median"] = json!({"value": 3});
    });
    let error = error(&text);
    assert!(
        error.starts_with(
            "schema version 3 is newer than 2, and its field 'results[1].median' cannot be read: invalid type: map, \
             expected f64 at line "
        ),
        "{error}"
    );
}

#[test]
fn a_field_of_another_type_is_named_with_its_line() {
    let text = changed(|report| report["host"]["cpus"] = json!("two"));
    let line = text
        .lines()
        .position(|line| line.contains("\"two\""))
        .unwrap()
        + 1;
    let error = error(&text);
    assert!(
        error.starts_with("its field 'host.cpus' cannot be read: invalid type"),
        "{error}"
    );
    assert!(error.contains(&format!("at line {line} ")), "{error}");
    let text = changed(|report| report["results"][2]["samples_ns"][1] = json!("fast"));
    let of_row = super::tests::error(&text);
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
fn files_of_others_are_named() {
    assert_eq!(error(""), "it is empty");
    assert_eq!(error(" \n"), "it is empty");
    let foreign = "it is JSON but not a vmbell report: it has no 'schema_version'";
    for text in ["[]", "{}", "3", r#"{"results": []}"#] {
        assert_eq!(error(text), foreign, "{text}");
    }
    let hyperfine =
        r#"{"results": [{"command": "sleep 1", "mean": 1.0, "times": [1.0], "exit_codes": [0]}]}"#;
    let version = r#"{"schema_version": "one"}"#;
    assert!(error(version).starts_with("its field 'schema_version' cannot be read"));
    assert!(error(hyperfine).starts_with("it is a report of hyperfine, not of vmbell"));
    assert!(error("name,ns\na,3\n").starts_with("it is not whole JSON"));
}

#[test]
fn a_report_whose_version_is_no_number_is_not_taken_for_another_programs() {
    let text = json(&crate::sample::report());
    let text = text.replacen("\"schema_version\": 2", "\"schema_version\": \"7\"", 1);
    let error = parse_any(&text).unwrap_err();
    assert!(matches!(error, ReadError::Field { .. }), "{error:?}");
    assert!(error.to_string().contains("schema_version"), "{error}");
}
