//! Tests of the table of all tests.

use serde_json::{Value, json};

use super::{Record, Summary};
use crate::weaken::forms;

/// The record of a test that meets one load, with its effect under RC11.
fn record(test: &str, order: &str, effect: Value) -> Record {
    Record::new(&json!({
        "program": "rings",
        "test": test,
        "number": 0,
        "unchanged": [{ "model": "SC", "executions": 3 }, { "model": "RC11", "executions": 3 }],
        "sites": [{
            "file": "ring/src/lib.rs",
            "line": 7,
            "function": "take",
            "owner": "tested code",
            "operation": "load",
            "order": order,
            "effects": { "SC": "no difference", "RC11": effect },
            "together": effect["least"].as_str().unwrap_or("Relaxed"),
        }],
        "minimal": true,
        "explorations": 1,
        "executions": 4,
    }))
}

fn weakened(least: &str, limit: Option<&str>, fails_with: Option<&str>) -> Value {
    let breaks: Vec<Value> = fails_with
        .map(|order| json!({ "order": order, "what": "it is lost", "trace": ["step"] }))
        .into_iter()
        .collect();
    json!({ "least": least, "limit": limit, "breaks": breaks })
}

/// The effect of all records together under RC11, and whether the order is stronger than needed.
fn word(records: Vec<Record>) -> (String, bool) {
    let summary = Summary::new(records);
    let unneeded = summary.unneeded().next().is_some();
    (summary.sites[0].in_words("RC11"), unneeded)
}

#[test]
fn an_order_that_one_test_needs_is_needed() {
    let needs = || record("a", "Acquire", weakened("Acquire", None, Some("Relaxed")));
    let not = || record("b", "Acquire", weakened("Relaxed", None, None));
    assert_eq!(word(vec![needs(), not()]), ("needed".into(), false));
    assert_eq!(word(vec![not(), needs()]), ("needed".into(), false));
    assert_eq!(word(vec![not()]), ("not needed".into(), true));
    let summary = Summary::new(vec![needs(), not()]);
    assert_eq!(summary.alone().into_keys().collect::<Vec<_>>(), ["rings a"]);
}

#[test]
fn two_halves_of_an_order_are_the_whole() {
    let acquires = record("a", "AcqRel", weakened("Acquire", None, Some("Relaxed")));
    let releases = record("b", "AcqRel", weakened("Release", None, Some("Relaxed")));
    assert_eq!(word(vec![acquires]), ("Acquire is enough".into(), true));
    let acquires = record("a", "AcqRel", weakened("Acquire", None, Some("Relaxed")));
    assert_eq!(word(vec![acquires, releases]), ("needed".into(), false));
}

#[test]
fn an_order_that_another_one_replaces_is_not_called_unneeded() {
    let mut record = record("a", "SeqCst", weakened("Relaxed", None, None));
    record.sites[0]["together"] = "SeqCst".into();
    assert_eq!(word(vec![record]), ("not needed".into(), false));
}

#[test]
fn a_limit_is_neither_needed_nor_unneeded() {
    let limit = || record("a", "Acquire", weakened("Acquire", Some("Relaxed"), None));
    let not = || record("b", "Acquire", weakened("Relaxed", None, None));
    assert_eq!(
        word(vec![limit(), not()]),
        ("limit at Relaxed".into(), false)
    );
    let needs = record("c", "Acquire", weakened("Acquire", None, Some("Relaxed")));
    assert_eq!(word(vec![limit(), needs]), ("needed".into(), false));
}

#[test]
fn a_site_that_no_model_can_weaken_is_not_called_unneeded() {
    for effect in ["not reached", "no difference"] {
        let record = record("a", "Acquire", effect.into());
        assert_eq!(word(vec![record]), (effect.into(), false));
    }
}

#[test]
fn the_forms_agree() {
    let needs = record("a", "SeqCst", weakened("Acquire", None, Some("Relaxed")));
    let mut refused = record("b", "SeqCst", json!("not reached"));
    refused.sites.clear();
    refused.refused = Some("SC FAILED".into());
    let summary = Summary::new(vec![needs, refused]);
    let expected = "\
site               function  order        RC11               together  needed by
ring/src/lib.rs:7  take      load SeqCst  Acquire is enough  Acquire   1 test

Stronger than these tests need, under these models: superfluous, or a scenario is missing.
    ring/src/lib.rs:7, take, load SeqCst

Only this test needs them: rings a
    ring/src/lib.rs:7, take, load SeqCst

Not weakened, because it is not complete and clean as it is: rings b
    SC FAILED
";
    assert_eq!(forms::text(&summary, None), expected);
    let with_trace = forms::text(&summary, Some("lib.rs:7"));
    let trace = "load SeqCst: with Relaxed under RC11, rings a: it is lost\n    step\n";
    assert!(with_trace.ends_with(trace), "{with_trace}");
    let markdown = forms::markdown(&summary);
    let row = "| ring/src/lib.rs:7 | take | load SeqCst | Acquire is enough | Acquire | 1 test |\n";
    assert!(markdown.contains(row), "{markdown}");
    assert!(
        markdown.contains("|---|---|---|---|---|---|\n"),
        "{markdown}"
    );
    let json = forms::json(&summary);
    let effect = &json["sites"][0]["effects"]["RC11"];
    assert_eq!(effect["result"], "Acquire is enough");
    assert_eq!(effect["breaks"]["trace"][0], "step");
    assert_eq!(json["refused"][0]["test"], "rings b");
}
