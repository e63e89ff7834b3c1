//! Reports of schema 1, as vmbell 0.1 wrote them, are read, compared and shown like those of the present schema.

use crate::compare::{CompareOptions, Verdict, compare};
use crate::{Exits, Kind, Report, Run, json, page, parse, parse_any};

const FILES: [(&str, &str); 7] = [
    ("first", include_str!("../tests/data/schema1/first.json")),
    ("paths", include_str!("../tests/data/schema1/paths.json")),
    ("eoi", include_str!("../tests/data/schema1/eoi.json")),
    ("rings", include_str!("../tests/data/schema1/rings.json")),
    ("vmms", include_str!("../tests/data/schema1/vmms.json")),
    (
        "instructions-before",
        include_str!("../tests/data/schema1/instructions-before.json"),
    ),
    (
        "instructions-after",
        include_str!("../tests/data/schema1/instructions-after.json"),
    ),
];

fn read(name: &str) -> Report {
    let (_, text) = FILES.iter().find(|(other, _)| *other == name).unwrap();
    parse(text).unwrap()
}

#[test]
fn every_file_is_read_without_a_warning_and_written_as_schema_2() {
    for (name, text) in FILES {
        let reading = parse_any(text).unwrap();
        assert_eq!(reading.warnings, [""; 0], "{name}");
        let written = json(&reading.report);
        assert!(written.contains("\"schema_version\": 2"), "{name}");
        assert_eq!(parse(&written).unwrap(), reading.report, "{name}");
    }
}

#[test]
fn the_suite_follows_from_the_fields_of_a_file() {
    let names = FILES.map(|(name, text)| (name, parse(text).unwrap().kind.name()));
    let expected = [
        ("first", "paths"),
        ("paths", "paths"),
        ("eoi", "eoi"),
        ("rings", "rings"),
        ("vmms", "vmms"),
        ("instructions-before", "paths"),
        ("instructions-after", "paths"),
    ];
    assert_eq!(names, expected);
    // A report of networks has a plan without operations.
    let mut value: serde_json::Value = serde_json::from_str(FILES[4].1).unwrap();
    value["plan"]["ops"] = serde_json::Value::Null;
    let report = parse(&value.to_string()).unwrap();
    assert!(matches!(report.kind, Kind::Net(vmms) if vmms.len() == 2));
}

#[test]
fn every_sample_and_every_name_is_kept() {
    for (name, text) in FILES {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let report = parse(text).unwrap();
        let rows = value["results"].as_array().unwrap();
        assert_eq!(rows.len(), report.common.results.len(), "{name}");
        for (old, row) in rows.iter().zip(&report.common.results) {
            assert_eq!(old["command"], row.command.as_str(), "{name}");
            assert_eq!(old["backend"], row.backend.as_str(), "{name}");
            assert_eq!(old["status"], row.status().name(), "{name}");
            let times = row.times();
            let samples = times.map_or(&[][..], |times| &times.samples);
            assert_eq!(old["samples_ns"], serde_json::json!(samples), "{name}");
            let ops = times.map_or(0, |times| times.ops.len());
            assert_eq!(ops, samples.len(), "{name}");
            let median = row.median().map(|ns| (ns * 1e3).round());
            let old = old["median"].as_f64().map(|s| (s * 1e12).round());
            assert_eq!(old, median, "{name}");
        }
    }
}

#[test]
fn exits_mean_the_same_whatever_a_suite_called_them() {
    let exits = |name: &str, command: &str| {
        let rows = read(name).common.results;
        let mut rows = rows.into_iter().filter(|row| row.backend != "kvm");
        rows.find(|row| row.command == command).unwrap().exits()
    };
    let told_apart = Exits {
        total: Some(1.0),
        userspace: Some(1.0),
    };
    assert_eq!(exits("paths", "portio-no-eventfd"), Some(told_apart));
    let all = exits("eoi", "pv-eoi-off").unwrap();
    assert!(all.total.is_some_and(|total| total > 0.0), "{all:?}");
    assert_eq!(all.userspace, None);
    assert_eq!(exits("rings", "--wide-tokens"), None);
}

#[test]
fn reports_of_both_schemas_are_compared_with_each_other() {
    let (before, after) = (read("instructions-before"), read("instructions-after"));
    let options = CompareOptions::default();
    let both = |old: &Report, new: &Report| {
        compare(
            std::slice::from_ref(old),
            std::slice::from_ref(new),
            &options,
        )
        .unwrap()
    };
    let compared = both(&before, &after);
    let measured = before.common.results.iter().filter(|row| row.is_ok());
    assert_eq!(compared.rows.len(), measured.count());
    let rewritten = parse(&json(&after)).unwrap();
    assert_eq!(both(&before, &rewritten), compared);
    let same = both(&after, &rewritten);
    assert!(same.rows.iter().all(|row| row.verdict == Verdict::Same));
}

#[test]
fn every_file_makes_a_page() {
    for (name, _) in FILES {
        let run = Run {
            name: name.to_owned(),
            report: read(name),
            warnings: Vec::new(),
        };
        let page = page(&[run]);
        assert!(page.contains("Hosts and warnings"), "{name}");
    }
}
