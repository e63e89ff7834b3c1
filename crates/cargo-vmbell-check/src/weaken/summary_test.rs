//! Tests of the table of all tests.

use serde_json::{Value, json};
use vmbell_check::Outcome;

use super::{Record, Summary};
use crate::weaken::mutants::MutantResult;
use crate::weaken::{forms, html, instructions};

/// The record of a test that meets one load, with its effect under RC11.
fn record(test: &str, order: &str, effect: Value) -> Record {
    let record = Record::new(&json!({
        "version": 2,
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
    }));
    record.expect("this version is known")
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
fn a_record_of_another_version_is_refused() {
    let error = Record::new(&json!({ "version": 1, "program": "rings" })).unwrap_err();
    let told = "writes records of version 1, and this program reads version 2";
    assert!(error.to_string().contains(told), "{error}");
    let error = Record::new(&json!({ "program": "rings" })).unwrap_err();
    assert!(error.to_string().contains("version null"), "{error}");
}

#[test]
fn a_site_without_a_line_is_named_by_its_file_and_without_a_file_by_its_function() {
    let note = "has no debug information";
    for (file, line, name, has_note) in [
        ("ring/src/lib.rs", 7, "ring/src/lib.rs:7", false),
        ("ring/src/lib.rs", 0, "ring/src/lib.rs", false),
        ("", 0, "take+0x1c", true),
    ] {
        let mut record = record("a", "Acquire", weakened("Acquire", None, Some("Relaxed")));
        record.sites[0]["file"] = file.into();
        record.sites[0]["line"] = line.into();
        record.sites[0]["function"] = "take+0x1c".into();
        let summary = Summary::new(vec![record]);
        assert_eq!(summary.sites[0].place.source.name(), name);
        let text = forms::text(&summary, None);
        assert!(text.contains(&format!("\n{name}  ")), "{text}");
        assert_eq!(text.contains(note), has_note, "{text}");
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

Not weakened: rings b
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

/// A record with a mutant, and the mutant's outcome under SC.
fn with_mutant(test: &str, result: &str) -> Record {
    let mut record = record(test, "Acquire", weakened("Relaxed", None, None));
    let source = |line: u32, function| json!({ "file": "ring/src/lib.rs", "line": line, "function": function, "owner": "tested code" });
    let is_found = result == "found";
    let breaks = is_found.then(|| json!({ "what": "it is lost", "trace": ["step"] }));
    record.mutants.push(json!({
        "store": source(3, "fill"),
        "past": source(4, "publish"),
        "operation": "store",
        "outcomes": { "SC": { "result": result, "breaks": breaks }, "RC11": { "result": result } },
    }));
    record
}

#[test]
fn a_mutant_that_one_test_finds_is_found() {
    let results = ["not reached", "not found", "limit", "found"];
    for (at, strong) in results.iter().enumerate() {
        for weak in &results[..=at] {
            for [one, other] in [[strong, weak], [weak, strong]] {
                let summary = Summary::new(vec![with_mutant("a", one), with_mutant("b", other)]);
                assert_eq!(summary.mutants.len(), 1);
                assert_eq!(summary.mutants[0].in_words("SC"), *strong);
            }
        }
    }
}

#[test]
fn what_comes_of_a_mutant_has_the_words_of_the_library() {
    let results = [
        (Outcome::NotReached, MutantResult::NotReached),
        (Outcome::NotFound, MutantResult::NotFound),
        (Outcome::Limit, MutantResult::Limit),
        (Outcome::Found(None), MutantResult::Found),
    ];
    for (written, read) in results {
        assert_eq!(written.in_words(), read.in_words());
    }
}

#[test]
fn mutants_and_instructions_have_tables() {
    let summary = Summary::new(vec![
        with_mutant("a", "found"),
        with_mutant("b", "not found"),
    ]);
    let text = forms::text(&summary, Some("lib.rs:3"));
    let expected = "
store              function  moved past               function  SC     RC11   found by
ring/src/lib.rs:3  fill      store ring/src/lib.rs:4  publish   found  found  1 test

architecture  instruction  sites  together
arm64         ldar         1      0
";
    assert!(text.contains(expected), "{text}");
    let trace = "\nstore ring/src/lib.rs:3 past the store ring/src/lib.rs:4: under SC, rings a: it is lost\n    step\n";
    assert!(text.ends_with(trace), "{text}");
    let json = forms::json(&summary);
    assert_eq!(json["mutants"][0]["found_by"], json!(["rings a"]));
    assert_eq!(json["instructions"][0]["instruction"], "ldar");
}

#[test]
fn each_order_has_its_instruction() {
    let count = |operation: &str, order: &str| {
        let mut record = record("a", order, weakened("Relaxed", None, None));
        record.sites[0]["operation"] = operation.into();
        let counts = instructions::count(&Summary::new(vec![record]));
        let names = counts.iter().map(|count| count.instruction);
        names.collect::<Vec<_>>().join(", ")
    };
    let rules = [
        ("fence", "SeqCst", "mfence, dmb ish"),
        ("fence", "Release", "dmb ish"),
        ("fence", "Acquire", "dmb ishld"),
        ("load", "SeqCst", "ldar"),
        ("store", "SeqCst", "xchg, stlr"),
        ("store", "Release", "stlr"),
        ("update", "AcqRel", "ldaddal"),
        ("compare-exchange, success", "Acquire", "casa"),
        ("compare-exchange, success", "Release", "casl"),
        ("compare-exchange, success", "SeqCst", "casal"),
        ("compare-exchange, failure", "Acquire", ""),
        ("update", "Acquire", "ldadda"),
        ("update", "Release", "ldaddl"),
        ("load", "Relaxed", ""),
    ];
    for (operation, order, instructions) in rules {
        assert_eq!(count(operation, order), instructions, "{operation} {order}");
    }
}

#[test]
fn the_page_has_the_source_with_marks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lib.rs");
    let source: String = (1..=30).map(|line| format!("line<{line}>;\n")).collect();
    std::fs::write(&path, source).unwrap();
    let mut record = with_mutant("a", "found");
    record.sites[0]["path"] = path.to_str().into();
    record.mutants[0]["store"]["path"] = path.to_str().into();
    let page = html::page(&Summary::new(vec![record]));
    let marked = [
        r#"<span class="needed"><span class="number">3</span>line&lt;3&gt;;</span>"#,
        r#"<span class="unneeded"><span class="number">7</span>line&lt;7&gt;;</span>"#,
        "store moved past the store ring/src/lib.rs:4, publish: RC11 found, SC found</summary>under SC, rings a: it is lost",
        "load Acquire, take: RC11 not needed</span>",
    ];
    for text in marked {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert!(
        page.contains("line&lt;11&gt;") && !page.contains("line&lt;12&gt;"),
        "{page}"
    );
    // Without the source, the marks remain.
    let page = html::page(&Summary::new(vec![with_mutant("a", "found")]));
    assert!(
        page.contains(r#"<span class="number">7</span></span>"#),
        "{page}"
    );
}

/// The color of the line of a store with these mutants: what comes of each, and whether the code orders it.
fn color(mutants: &[(&str, bool)]) -> String {
    let mut record = record("a", "Acquire", weakened("Relaxed", None, None));
    record.sites.clear();
    for (past, &(result, is_ordered)) in mutants.iter().enumerate() {
        let mut mutant = with_mutant("a", result).mutants.remove(0);
        mutant["past"]["line"] = past.into();
        mutant["is_ordered"] = is_ordered.into();
        record.mutants.push(mutant);
    }
    let page = html::page(&Summary::new(vec![record]));
    let (before, _) = page
        .split_once(r#""><span class="number">3</span>"#)
        .unwrap();
    before.rsplit('"').next().unwrap().to_string()
}

#[test]
fn the_color_of_a_line_is_that_of_the_legend() {
    assert_eq!(color(&[("found", true)]), "needed");
    assert_eq!(color(&[("not found", true)]), "unneeded");
    assert_eq!(color(&[("not found", false)]), "unclear");
    assert_eq!(color(&[("limit", true)]), "unclear");
    assert_eq!(color(&[("not reached", true)]), "unclear");
    let with_found = |other| color(&[("found", true), other]);
    assert_eq!(with_found(("not found", true)), "unneeded");
    assert_eq!(with_found(("not found", false)), "needed");
    assert_eq!(with_found(("limit", true)), "needed");
}

#[test]
fn a_needed_order_does_not_hide_a_moved_store_that_no_test_finds() {
    let mut record = with_mutant("a", "not found");
    record.sites[0] = self::record("a", "Acquire", weakened("Acquire", None, Some("Relaxed")))
        .sites
        .remove(0);
    record.sites[0]["line"] = 3.into();
    let page = html::page(&Summary::new(vec![record]));
    let line = r#"<span class="unneeded"><span class="number">3</span>"#;
    assert!(page.contains(line), "{page}");
}
