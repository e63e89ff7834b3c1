//! Tests of whole comparisons.

use super::samples::{Noise, report};
use super::*;
use vmbell_statistics::Random;

const QUIET: Noise = Noise {
    of_reports: 0.0,
    of_rows: 0.01,
    of_runs: 0.01,
};

fn reports(count: usize, rows: usize, factor: impl Fn(usize) -> f64, seed: u64) -> Vec<Report> {
    let mut random = Random::new(seed);
    let one = |_| report(rows, 10, QUIET, &factor, &mut random);
    (0..count).map(one).collect()
}

fn turns() -> CompareOptions {
    CompareOptions {
        pairing: Pairing::Turns,
        ..CompareOptions::default()
    }
}

#[test]
fn a_change_is_found_and_what_did_not_change_is_the_same() {
    let old = reports(12, 10, |_| 1.0, 1);
    let new = reports(12, 10, |row| if row == 3 { 1.1 } else { 1.0 }, 2);
    for options in [CompareOptions::default(), turns()] {
        let comparison = compare(&old, &new, &options).unwrap();
        for (index, row) in comparison.rows.iter().enumerate() {
            let expected = if index == 3 {
                Verdict::Slower
            } else {
                Verdict::Same
            };
            assert_eq!(row.verdict, expected, "{row:?}");
        }
        let worse: Vec<&str> = comparison
            .worse_than(0.05)
            .map(|row| row.key.command.as_str())
            .collect();
        assert_eq!(worse, ["row-3"]);
        assert_eq!(comparison.worse_than(0.2).count(), 0);
        assert_eq!(comparison.notes, [""; 0]);
    }
}

#[test]
fn a_row_that_only_one_turn_measured_is_inconclusive_and_says_so() {
    for options in [turns(), CompareOptions::default()] {
        let (mut old, mut new) = (reports(12, 2, |_| 1.0, 1), reports(12, 2, |_| 1.0, 2));
        // The runs agree with each other and differ from the other side's; a second turn might show otherwise.
        crate::sample::of(&mut new[0].results[1]).times.samples = vec![1080.0; 10];
        for report in old[1..].iter_mut().chain(&mut new[1..]) {
            report.results.truncate(1);
        }
        let comparison = compare(&old, &new, &options).unwrap();
        let row = &comparison.rows[1];
        assert_eq!(
            (row.verdict, row.p, row.interval),
            (Verdict::Inconclusive, None, None)
        );
        assert!(
            row.reason.as_ref().unwrap().starts_with("only one "),
            "{row:?}"
        );
        assert_eq!(comparison.worse_than(0.0).count(), 0);
    }
}

#[test]
fn a_row_that_was_measured_before_and_failed_now_is_named_with_its_reason() {
    let (old, mut new) = (reports(2, 2, |_| 1.0, 1), reports(2, 2, |_| 1.0, 2));
    for report in &mut new {
        let row = &mut report.results[1];
        row.outcome = crate::Outcome::Failed {
            reason: Some("the guest faulted".to_owned()),
        };
    }
    let comparison = compare(&old, &new, &CompareOptions::default()).unwrap();
    let [failed] = comparison.failed_now.as_slice() else {
        panic!("{:?}", comparison.failed_now);
    };
    assert_eq!(failed.key.command, "row-1");
    assert_eq!(failed.reason.as_deref(), Some("the guest faulted"));
    assert!(comparison.only_old.is_empty());
    let text = crate::sample::plain(&comparison.blocks());
    assert!(
        text.contains("Failed now: row-1: the guest faulted."),
        "{text}"
    );
}

#[test]
fn a_count_that_was_zero_and_is_not_any_more_is_above_every_threshold() {
    let counted = |count: f64| {
        let mut reports = reports(2, 1, |_| 1.0, 1);
        for report in &mut reports {
            report.timing = crate::Timing::Instructions;
            crate::sample::of(&mut report.results[0]).times.samples = vec![count; 3];
        }
        reports
    };
    let comparison = compare(&counted(0.0), &counted(100.0), &CompareOptions::default()).unwrap();
    assert_eq!(comparison.rows[0].verdict, Verdict::Slower);
    assert_eq!(comparison.worse_than(0.5).count(), 1);
    let comparison = compare(&counted(0.0), &counted(0.0), &CompareOptions::default()).unwrap();
    assert_eq!(comparison.worse_than(0.0).count(), 0);
}

#[test]
fn rows_that_all_failed_are_named_where_nothing_is_left_to_compare() {
    let (old, mut new) = (reports(1, 1, |_| 1.0, 1), reports(1, 1, |_| 1.0, 2));
    new[0].results[0].outcome = crate::Outcome::Failed {
        reason: Some("the guest faulted".to_owned()),
    };
    let error = compare(&old, &new, &CompareOptions::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("failed now: the guest faulted"),
        "{error}"
    );
}

#[test]
fn reports_without_a_row_of_both_sides_have_nothing_in_common() {
    let (old, mut new) = (reports(1, 2, |_| 1.0, 1), reports(1, 2, |_| 1.0, 2));
    for row in &mut new[0].results {
        row.command = format!("other-{}", row.command);
    }
    let error = compare(&old, &new, &CompareOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "no row was measured on both sides");
}

/// Thousands of resamples of all these runs would take too long.
#[test]
fn rows_of_many_runs_are_compared() {
    let side = |factor: f64, seed| {
        vec![report(
            1,
            200_000,
            QUIET,
            |_| factor,
            &mut Random::new(seed),
        )]
    };
    let changed = |factor| {
        let comparison = compare(&side(1.0, 1), &side(factor, 2), &CompareOptions::default());
        comparison.unwrap().rows[0].clone()
    };
    let row = changed(1.1);
    assert_eq!(row.verdict, Verdict::Slower);
    let [low, high] = row.interval.unwrap();
    assert!(1.0 < low && low < high && high - low < 0.001, "{row:?}");
}

#[test]
fn reports_of_two_cpus_are_refused_unless_the_user_allows_them() {
    let (old, mut new) = (reports(3, 1, |_| 1.0, 1), reports(3, 1, |_| 1.0, 2));
    for report in &mut new {
        report.host.cpu = "another CPU".to_owned();
    }
    let error = compare(&old, &new, &CompareOptions::default()).unwrap_err();
    assert!(
        matches!(&error, CompareError::Different(all) if all.iter().all(|one| one.what == "CPU")),
        "{error}"
    );
    let allowed = CompareOptions {
        allow_different: true,
        ..CompareOptions::default()
    };
    assert_eq!(compare(&old, &new, &allowed).unwrap().rows.len(), 1);
}
