//! Tests of rows that count instructions.

use crate::compare::{CompareOptions, Verdict, compare};
use crate::{Report, sample};

fn counted(counts: &[f64]) -> Report {
    let mut report = sample::counted();
    report.results.truncate(1);
    sample::of(&mut report.results[0]).times.samples = counts.to_vec();
    report
}

fn verdict(old: &[f64], new: &[f64]) -> Verdict {
    let comparison = compare(&[counted(old)], &[counted(new)], &CompareOptions::default()).unwrap();
    let row = &comparison.rows[0];
    assert_eq!((row.p, row.adjusted_p), (None, None));
    assert!(comparison.notes[0].starts_with("Instructions are counted"));
    row.verdict
}

#[test]
fn equal_counts_are_the_same_and_any_other_is_a_change() {
    assert_eq!(verdict(&[2985.0; 3], &[2985.0; 3]), Verdict::Same);
    assert_eq!(verdict(&[2985.0; 3], &[2986.0; 3]), Verdict::Slower);
    assert_eq!(verdict(&[2985.0], &[2984.0]), Verdict::Faster);
}

#[test]
fn counts_that_overlap_decide_nothing() {
    let overlapping = verdict(&[100.0, 101.0, 105.0], &[100.0, 103.0, 106.0]);
    assert_eq!(overlapping, Verdict::Inconclusive);
}
