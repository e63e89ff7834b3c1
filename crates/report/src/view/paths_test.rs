//! Snapshots of the whole report.

use super::*;
use crate::TimeUnit;
use crate::sample;

/// The look of `--verbose`.
const WHOLE: Look = Look {
    verbose: true,
    ratios: false,
    bars: false,
    unit: None,
};

fn shown(report: &Report, look: Look) -> String {
    sample::shown(report, look, None)
}

#[test]
fn the_table_without_colours() {
    insta::assert_snapshot!(shown(&sample::report(), WHOLE));
}

#[test]
fn the_table_of_instructions() {
    insta::assert_snapshot!(shown(&sample::counted(), WHOLE));
}

#[test]
fn every_form_has_memory_if_a_row_has_it() {
    let forms = |report: &Report| {
        let run = crate::Run {
            name: "report.json".to_owned(),
            report: report.clone(),
        };
        [
            shown(report, WHOLE),
            shown(report, Look::default()),
            crate::markdown(&crate::blocks(report, WHOLE)),
            crate::openmetrics(report),
            crate::json(report),
            crate::page(&[run]),
        ]
        .map(|text| text.to_lowercase())
    };
    const KERNEL: [&str; 2] = ["kernel memory", "kernel_memory"];
    let has = |text: &str, either: [&str; 2]| either.iter().any(|part| text.contains(part));
    let mut report = sample::report();
    for text in forms(&report) {
        assert!(!text.contains("memory"), "{text}");
    }
    let row = sample::of(&mut report.results[0]);
    row.memory = Some(131_072);
    for text in forms(&report) {
        assert!(has(&text, ["128 kib", "131072"]), "{text}");
        assert!(!has(&text, KERNEL), "{text}");
    }
    let row = sample::of(&mut report.results[0]);
    row.kernel_memory = Some(262_144);
    for text in forms(&report) {
        assert!(has(&text, ["128 kib", "131072"]), "{text}");
        assert!(has(&text, ["256 kib", "262144"]), "{text}");
        assert!(has(&text, KERNEL), "{text}");
    }
    assert_eq!(crate::parse(&crate::json(&report)).ok(), Some(report));
}

#[test]
fn emulated_times_are_marked_as_such() {
    let mut report = sample::report();
    report.timing = crate::Timing::Emulated;
    let text = shown(&report, WHOLE);
    assert!(text.contains("\ntiming       emulated: "), "{text}");
    assert!(text.contains("  emulated  ± spread"), "{text}");
}

#[test]
fn a_backend_that_emulates_the_kernel_mode_says_what_to_use_instead() {
    let mut report = sample::report();
    let text = shown(&report, WHOLE);
    assert!(!text.contains("emulates"), "{text}");
    report.backends[0].emulates_kernel_mode = true;
    let text = shown(&report, WHOLE);
    let why = "(there is no /dev/kvm); emulates the guest's kernel mode: use the usermode backend";
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_time_below_its_resolution_is_a_bound_and_so_is_its_ratio() {
    let mut report = sample::report();
    let row = sample::of(&mut report.results[2]);
    row.times.median = 0.58;
    row.times.spread = Some(1.5);
    row.times.resolution = Some(1.0);
    let ratio = row.ratio.as_mut().unwrap();
    (ratio.value, ratio.ci_low, ratio.ci_high) = (1.0 / 14_200.0, None, None);
    ratio.is_bound = true;
    let text = shown(&report, WHOLE);
    let mut lines = text.lines();
    let row = lines.find(|line| line.starts_with("portio-wildcard-eventfd "));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(cells[1..4], ["<1.00", "ns", "-"], "{text}");
    assert!(cells.contains(&"<0.000070"), "{text}");
    assert!(text.contains("\n< below two ticks"), "{text}");
    sample::of(&mut report.results[2]).times.median = 1.0;
    let text = shown(&report, WHOLE);
    assert!(!text.contains("<1.00"), "{text}");
}

#[test]
fn light_exits_that_are_not_counted_are_a_dash_with_a_reason() {
    let mut report = sample::report();
    let row = &mut report.results[2];
    assert_eq!(row.command, "portio-wildcard-eventfd");
    let row = sample::of(row);
    row.exits.as_mut().unwrap().total = None;
    row.exits_note = Some("light exits are not counted: for a test".to_owned());
    let text = shown(&report, WHOLE);
    let mut lines = text.lines();
    let row = lines.find(|line| line.starts_with("portio-wildcard-eventfd "));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert!(cells.windows(2).any(|pair| pair == ["-", "0"]), "{text}");
    assert!(
        text.contains("\nlight exits are not counted: for a test\n"),
        "{text}"
    );
}

#[test]
fn a_report_that_ended_early_says_so() {
    let mut report = sample::report();
    report.interrupted = true;
    report.plan.finished = 2;
    let text = shown(&report, WHOLE);
    assert!(text.contains("2 (of 4 wanted)"), "{text}");
    assert!(text.contains("INTERRUPTED"), "{text}");
}

#[test]
fn a_note_of_several_rows_stands_once_and_only_below_numbers() {
    let mut report = sample::report();
    for row in &mut report.results[6..] {
        row.note = Some("one operation is there and back".to_owned());
    }
    let notes = |report: &Report| {
        let text = shown(report, WHOLE);
        text.matches("\none operation is there and back").count()
    };
    assert_eq!(notes(&report), 1);
    for row in &mut report.results[6..] {
        row.outcome = crate::Outcome::Skipped { reason: None };
    }
    assert_eq!(notes(&report), 0);
}

#[test]
fn the_table_of_two_backends() {
    insta::assert_snapshot!(shown(&sample::two_backends(), WHOLE));
}

#[test]
fn the_table_of_two_backends_in_80_columns() {
    insta::assert_snapshot!(sample::shown(&sample::two_backends(), WHOLE, Some(80)));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for report in [sample::report(), sample::two_backends(), sample::counted()] {
        for width in [60, 72, 80, 100, 132] {
            for bars in [false, true] {
                let look = Look { bars, ..WHOLE };
                for line in sample::shown(&report, look, Some(width)).lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
            }
        }
    }
}

#[test]
fn a_backend_that_emulates_kernel_mode_is_marked_beside_the_other() {
    let mut report = sample::two_backends();
    report.backends[0].emulates_kernel_mode = true;
    let text = shown(&report, WHOLE);
    assert!(
        text.contains("kvm†  ") && !text.contains("usermode†"),
        "{text}"
    );
    assert!(
        text.contains("\n† emulates the guest's kernel mode"),
        "{text}"
    );
}

#[test]
fn bars_stand_beside_the_numbers_where_there_is_room() {
    let wide = |report: &Report, width| {
        let look = Look {
            bars: true,
            ..WHOLE
        };
        sample::shown(report, look, Some(width))
    };
    insta::assert_snapshot!(wide(&sample::report(), 132));
    insta::assert_snapshot!(wide(&sample::two_backends(), 200));
    assert!(!wide(&sample::report(), 60).contains('█'));
    assert!(!shown(&sample::report(), WHOLE).contains('█'));
}

#[test]
fn all_times_are_in_the_unit_that_is_asked_for() {
    let look = Look {
        unit: Some(TimeUnit::Cycle),
        ..WHOLE
    };
    let text = shown(&sample::report(), look);
    let table: String = text.split_once("scenario").unwrap().1.to_owned();
    let table = table
        .split_once("\nratios")
        .map_or(table.as_str(), |(table, _)| table);
    assert!(table.contains(" cy "), "{table}");
    assert!(!table.contains("ns ") && !table.contains("µs "), "{table}");
}
