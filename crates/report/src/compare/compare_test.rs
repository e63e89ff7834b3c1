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
        assert_eq!(row.reason, Some(NoVerdict::OneReport));
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
    let text = crate::sample::plain(&comparison.blocks(false));
    assert!(
        text.contains("Failed now: row-1: the guest faulted."),
        "{text}"
    );
}

#[test]
fn a_row_is_worse_than_a_threshold_if_its_whole_interval_is_above_it() {
    let mut comparison = super::samples::comparison();
    comparison.rows.truncate(1);
    for (verdict, interval, is_worse) in [
        (Verdict::Slower, Some([1.26, 1.5]), true),
        (Verdict::Slower, Some([1.25, 1.5]), false),
        (Verdict::Slower, Some([1.1, 1.5]), false),
        (Verdict::Slower, None, true),
        (Verdict::Inconclusive, Some([1.26, 1.5]), false),
        (Verdict::Faster, None, false),
    ] {
        let row = &mut comparison.rows[0];
        (row.verdict, row.interval) = (verdict, interval);
        let worse = comparison.worse_than(0.25).count();
        assert_eq!(worse, usize::from(is_worse), "{verdict:?} {interval:?}");
    }
}

#[test]
fn an_error_names_the_side_the_numbers_and_all_that_differs() {
    let one = reports(1, 1, |_| 1.0, 1);
    let three = reports(3, 1, |_| 1.0, 1);
    let mut other = one.clone();
    other[0].host.cpu = "another CPU".to_owned();
    other[0].host.arch = "aarch64".to_owned();
    let mut failed = one.clone();
    failed[0].results[0].outcome = crate::Outcome::Failed { reason: None };
    for (old, new, options, told) in [
        (
            &[][..],
            &one,
            CompareOptions::default(),
            "the old side has no report",
        ),
        (
            &one,
            &vec![],
            CompareOptions::default(),
            "the new side has no report",
        ),
        (
            &one,
            &three,
            turns(),
            "turns need as many old reports as new ones, and there are 1 and 3",
        ),
        (
            &one,
            &other,
            CompareOptions::default(),
            "the reports are not comparable: CPU: Example(R) CPU @ 2.50GHz before, another CPU now; \
             architecture: x86_64 before, aarch64 now",
        ),
        (
            &one,
            &failed,
            CompareOptions::default(),
            "no row was measured on both sides; row-0 (usermode) failed now",
        ),
    ] {
        let error = compare(old, new, &options).unwrap_err();
        assert_eq!(error.to_string(), told);
    }
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
    let exact = Noise {
        of_rows: 0.0,
        ..QUIET
    };
    let side = |factor: f64, seed| {
        let mut random = Random::new(seed);
        let one = |_| report(1, 50_000, exact, |_| factor, &mut random);
        (0..4).map(one).collect::<Vec<_>>()
    };
    let comparison = compare(&side(1.0, 1), &side(1.1, 2), &CompareOptions::default());
    let row = comparison.unwrap().rows[0].clone();
    assert_eq!(row.verdict, Verdict::Slower);
    let [low, high] = row.interval.unwrap();
    assert!(1.0 < low && low < high && high - low < 0.001, "{row:?}");
}

#[test]
fn times_of_one_report_on_each_side_have_a_ratio_and_no_verdict() {
    let (old, new) = (reports(1, 2, |_| 1.0, 1), reports(1, 2, |_| 3.0, 2));
    for options in [turns(), CompareOptions::default()] {
        let comparison = compare(&old, &new, &options).unwrap();
        for row in &comparison.rows {
            assert!(row.ratio.is_some_and(|ratio| (2.9..3.1).contains(&ratio)));
            assert_eq!(
                (row.verdict, row.reason, row.interval),
                (Verdict::Inconclusive, Some(NoVerdict::OneReport), None)
            );
        }
        assert!(!comparison.can_judge());
        let text = crate::sample::plain(&comparison.blocks(false));
        assert!(text.starts_with("2 inconclusive\n"), "{text}");
        assert!(
            text.contains("No verdict on any row: with one report per side"),
            "{text}"
        );
    }
}

/// 38 reports against 1 give p-values of at least 2/39.
#[test]
fn too_few_reports_for_any_change_cannot_judge() {
    let old = reports(39, 1, |_| 1.0, 1);
    for (count, can_judge) in [(8, false), (38, false), (39, true)] {
        let options = CompareOptions::default();
        let comparison = compare(&old[..count], &reports(1, 1, |_| 1.2, 2), &options).unwrap();
        let row = &comparison.rows[0];
        let expected = match can_judge {
            true => (Verdict::Slower, None),
            false => (Verdict::Inconclusive, Some(NoVerdict::TooFew)),
        };
        assert_eq!((row.verdict, row.reason), expected, "{count}");
        assert_eq!(comparison.can_judge(), can_judge);
        assert_eq!(can_show_a_change(count, 1, Pairing::Apart), can_judge);
    }
}

/// A row is the same without a p-value, so it does not show that another row could be slower.
#[test]
fn a_row_that_is_the_same_does_not_make_three_reports_enough() {
    let exact = Noise {
        of_rows: 0.0,
        ..QUIET
    };
    let side = |factor: f64, seed| {
        let mut random = Random::new(seed);
        let factor = |row| if row == 1 { factor } else { 1.0 };
        let one = |_| report(2, 10, exact, factor, &mut random);
        (0..3).map(one).collect::<Vec<_>>()
    };
    let (old, new) = (side(1.0, 1), side(2.0, 2));
    for options in [CompareOptions::default(), turns()] {
        let comparison = compare(&old, &new, &options).unwrap();
        let verdicts = [0, 1].map(|row: usize| comparison.rows[row].verdict);
        assert_eq!(verdicts, [Verdict::Same, Verdict::Inconclusive]);
        assert!(!comparison.can_judge());
        assert_eq!(comparison.unclear_at(0.5).count(), 1);
    }
}

#[test]
fn a_same_row_whose_interval_reaches_above_the_threshold_is_unclear() {
    let (old, new) = (reports(12, 1, |_| 1.0, 1), reports(12, 1, |_| 1.0, 2));
    let comparison = compare(&old, &new, &CompareOptions::default()).unwrap();
    let row = &comparison.rows[0];
    let [_, high] = row.interval.unwrap();
    assert_eq!(row.verdict, Verdict::Same);
    assert_eq!(comparison.unclear_at(high - 1.0 - 1e-6).count(), 1);
    assert_eq!(comparison.unclear_at(high - 1.0 + 1e-6).count(), 0);
}

#[test]
fn a_row_without_a_verdict_says_whether_its_interval_or_the_number_of_rows_is_the_reason() {
    let noisy = Noise {
        of_rows: 0.3,
        ..QUIET
    };
    let side = |factor: f64, seed| {
        let mut random = Random::new(seed);
        let one = |_| report(1, 5, noisy, |_| factor, &mut random);
        (0..6).map(one).collect::<Vec<_>>()
    };
    let wide = compare(&side(1.0, 1), &side(1.0, 2), &CompareOptions::default()).unwrap();
    assert_eq!(wide.rows[0].reason, Some(NoVerdict::WideInterval));
    assert_eq!(wide.unclear_at(0.05).count(), 1);
    assert_eq!(wide.unclear_at(20.0).count(), 0);
    assert!(wide.can_judge());
    // One row of 100 changed, and six turns cannot show that.
    let old = reports(6, 100, |_| 1.0, 1);
    let new = reports(6, 100, |row| if row == 3 { 1.3 } else { 1.0 }, 2);
    let comparison = compare(&old, &new, &turns()).unwrap();
    assert_eq!(comparison.rows[3].reason, Some(NoVerdict::NotSignificant));
    let [low, _] = comparison.rows[3].interval.unwrap();
    assert!(low > 1.05, "the whole interval is above the threshold");
    assert_eq!(comparison.worse_than(0.05).count(), 0);
    let unclear: Vec<&str> = comparison
        .unclear_at(0.05)
        .map(|row| row.key.command.as_str())
        .collect();
    assert_eq!(unclear, ["row-3"]);
    for row in &comparison.rows {
        let is_inconclusive = row.verdict == Verdict::Inconclusive;
        assert_eq!(row.reason.is_some(), is_inconclusive, "{row:?}");
    }
}

#[test]
fn instructions_and_times_are_never_compared() {
    let (old, mut new) = (reports(2, 1, |_| 1.0, 1), reports(2, 1, |_| 1.0, 2));
    new[1].timing = crate::Timing::Instructions;
    let options = CompareOptions {
        allow_different: true,
        ..CompareOptions::default()
    };
    assert_eq!(compare(&old, &new, &options), Err(CompareError::Units));
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
