//! Tests of the notes.

use crate::compare::samples::{Noise, report};
use crate::compare::{CompareOptions, Pairing, compare};
use crate::{Report, Timing};
use vmbell_statistics::Random;

fn reports(count: usize, rows: usize, seed: u64) -> Vec<Report> {
    let noise = Noise {
        of_reports: 0.0,
        of_rows: 0.01,
        of_runs: 0.01,
    };
    let mut random = Random::new(seed);
    let one = |_| report(rows, 10, noise, |_| 1.0, &mut random);
    (0..count).map(one).collect()
}

fn notes(old: usize, new: usize, rows: usize, pairing: Pairing) -> Vec<String> {
    let options = CompareOptions {
        pairing,
        resamples: 10,
        ..CompareOptions::default()
    };
    let comparison = compare(&reports(old, rows, 1), &reports(new, rows, 2), &options).unwrap();
    comparison.notes
}

#[test]
fn a_single_report_on_one_side_says_what_is_unknown() {
    let of_old = notes(1, 60, 2, Pairing::Apart);
    assert!(of_old[0].starts_with("The old side is a single report"));
    let of_new = notes(60, 1, 2, Pairing::Apart);
    assert!(of_new[0].starts_with("The new side is a single report"));
    // The rows themselves say so.
    assert_eq!(notes(1, 1, 2, Pairing::Turns), [""; 0]);
}

#[test]
fn too_few_reports_say_how_many_are_enough() {
    let only = |notes: Vec<String>| {
        assert_eq!(notes.len(), 1, "{notes:?}");
        notes[0].clone()
    };
    assert_eq!(
        only(notes(3, 3, 30, Pairing::Apart)),
        "3 reports a side cannot show any change: take at least 7 to find a single row among 30."
    );
    assert_eq!(
        only(notes(6, 6, 20, Pairing::Turns)),
        "6 turns show a change only where at least 13 of 20 rows changed together: take at least 10 to find a single \
         row among 20."
    );
    assert_eq!(
        only(notes(3, 4, 2, Pairing::Apart)),
        "3 and 4 reports a side cannot show any change: take at least 5 to find a single row among 2."
    );
    assert_eq!(notes(10, 10, 20, Pairing::Turns), [""; 0]);
}

#[test]
fn rows_that_no_number_of_reports_can_tell_apart_are_too_many() {
    // No p-value is below the share of one permutation among those that are drawn.
    let notes = notes(2, 2, 820, Pairing::Turns);
    assert_eq!(
        notes,
        ["2 turns cannot show any change: compare fewer rows."]
    );
}

#[test]
fn copies_of_a_report_are_named() {
    let old = [reports(1, 2, 1), reports(1, 2, 1)].concat();
    let comparison = compare(&old, &old, &CompareOptions::default()).unwrap();
    let text = comparison.notes.join("\n");
    assert!(text.contains("Of the old side, 1 of 2 reports are copies of another one"));
    assert!(text.contains("have a report in common"));
}

#[test]
fn reports_that_stopped_early_are_named() {
    let mut old = reports(8, 1, 1);
    old[3].interrupted = true;
    let comparison = compare(&old, &reports(8, 1, 2), &CompareOptions::default()).unwrap();
    assert_eq!(
        comparison.notes,
        ["Of the old side, 1 of 8 reports stopped before the end."]
    );
}

#[test]
fn sides_that_were_measured_one_after_the_other_are_named() {
    let started = |hour: usize| {
        move |(index, mut report): (usize, Report)| {
            report.started = format!("2026-11-21T{hour:02}:{index:02}:00Z");
            report
        }
    };
    let at = |hour, seed| -> Vec<Report> {
        reports(8, 1, seed)
            .into_iter()
            .enumerate()
            .map(started(hour))
            .collect()
    };
    let notes = |new: &[Report], pairing| {
        let options = CompareOptions {
            pairing,
            ..CompareOptions::default()
        };
        compare(&at(9, 1), new, &options).unwrap().notes
    };
    let (later, between) = (at(10, 2), at(9, 2));
    assert!(
        notes(&later, Pairing::Turns)[0].starts_with("These reports were not measured in turns: ")
    );
    assert!(notes(&later, Pairing::Apart)[0].ends_with("Measure in turns."));
    assert_eq!(notes(&between, Pairing::Turns), [""; 0]);
}

#[test]
fn a_side_that_is_a_single_report_is_named() {
    for (old, new, begins) in [
        (1, 8, "The old side is a single report"),
        (8, 1, "The new side is a single report"),
    ] {
        let notes = notes(old, new, 1, Pairing::Apart);
        assert!(notes[0].starts_with(begins), "{notes:?}");
    }
}

#[test]
fn times_of_an_emulated_cpu_on_either_side_say_nothing() {
    let of = |timing: Timing, seed| {
        let mut reports = reports(8, 1, seed);
        for report in &mut reports {
            report.timing = timing;
        }
        reports
    };
    let options = CompareOptions {
        resamples: 10,
        allow_different: true,
        ..CompareOptions::default()
    };
    let (native, emulated) = (Timing::Native, Timing::Emulated);
    for (old, new, is_noted) in [
        (native, native, false),
        (emulated, native, true),
        (native, emulated, true),
    ] {
        let notes = compare(&of(old, 1), &of(new, 2), &options).unwrap().notes;
        let note = "Times of an emulated CPU say nothing about hardware.";
        assert_eq!(
            notes.iter().any(|other| other == note),
            is_noted,
            "{notes:?}"
        );
    }
}
