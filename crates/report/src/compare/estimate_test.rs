//! Tests of single rows.

use super::*;
use crate::compare::compare;
use crate::{Report, sample};

fn reports(samples: &[&[f64]], resolution_ns: Option<f64>) -> Vec<Report> {
    let one = |samples: &&[f64]| {
        let mut report = sample::report();
        report.results.truncate(1);
        let times = &mut sample::of(&mut report.results[0]).times;
        times.samples = samples.to_vec();
        times.resolution = resolution_ns;
        report
    };
    samples.iter().map(one).collect()
}

fn only(old: &[Report], new: &[Report], options: CompareOptions) -> ComparedRow {
    compare(old, new, &options).unwrap().rows.remove(0)
}

#[test]
fn the_number_of_a_side_is_the_median_of_its_reports_medians() {
    let old = reports(&[&[1.0, 2.0, 9.0], &[4.0, 4.0, 4.0], &[100.0]], None);
    let new = reports(&[&[8.0, 8.0, 8.0]], None);
    let row = only(&old, &new, CompareOptions::default());
    assert_eq!((row.old.median_ns, row.new.median_ns), (4.0, 8.0));
    assert_eq!((row.old.reports, row.old.runs), (3, 7));
    assert_eq!(row.ratio, Some(2.0));
}

#[test]
fn the_ratio_of_turns_is_the_median_of_their_ratios() {
    let old = reports(&[&[1.0], &[10.0], &[100.0]], None);
    let new = reports(&[&[2.0], &[20.0], &[50.0]], None);
    let options = CompareOptions {
        pairing: Pairing::Turns,
        ..CompareOptions::default()
    };
    let row = only(&old, &new, options);
    assert!((row.ratio.unwrap() - 2.0).abs() < 1e-12);
}

#[test]
fn what_both_sides_cannot_tell_from_none_is_inconclusive() {
    let row = only(
        &reports(&[&[0.0, 1.0, 2.0]], Some(40.0)),
        &reports(&[&[20.0, 30.0, 35.0]], Some(40.0)),
        CompareOptions::default(),
    );
    assert_eq!(row.verdict, Verdict::Inconclusive);
    assert!(row.old.is_bound && row.new.is_bound);
    assert_eq!(row.ratio, None);
    assert_eq!(row.reason, Some(NoVerdict::BelowResolution));
}

#[test]
fn a_bound_on_one_side_is_compared_by_the_resolution() {
    let row = only(
        &reports(&[&[0.0, 1.0, 2.0]], Some(40.0)),
        &reports(&[&[80.0, 80.0, 80.0]], Some(40.0)),
        CompareOptions::default(),
    );
    assert_eq!(row.ratio, Some(2.0));
    assert!(row.old.is_bound && !row.new.is_bound);
}

#[test]
fn a_time_of_nothing_has_no_ratio() {
    for zero in [0.0, -1.0, f64::MAX] {
        let row = only(
            &reports(&[&[zero; 3]], None),
            &reports(&[&[f64::MIN_POSITIVE; 3]], None),
            CompareOptions::default(),
        );
        assert_eq!((row.ratio, row.verdict), (None, Verdict::Inconclusive));
        assert_eq!(row.reason, Some(NoVerdict::NotPositive));
    }
}

#[test]
fn a_verdict_needs_a_significant_change_whose_interval_leaves_out_1() {
    use NoVerdict::{NotSignificant, TooFew, WideInterval};
    use Verdict::{Faster, Inconclusive, Same, Slower};
    // 39 reports against 1 are the fewest that can be significant at all.
    let some = |low, high| Some([low, high]);
    for (old, interval, adjusted_p, verdict, reason) in [
        (39, some(1.1, 1.2), ALPHA, Slower, None),
        (39, some(0.8, 0.9), ALPHA, Faster, None),
        (39, some(1.1, 1.2), 0.06, Inconclusive, Some(NotSignificant)),
        (39, some(0.8, 0.9), 0.06, Inconclusive, Some(NotSignificant)),
        (39, some(0.5, 1.0), 0.01, Inconclusive, Some(WideInterval)),
        (39, some(1.0, 2.0), 0.01, Inconclusive, Some(WideInterval)),
        (38, some(0.5, 2.0), 0.06, Inconclusive, Some(TooFew)),
        (39, some(1.0 - 0.05, 1.0 + 0.05), 0.5, Same, None),
        (39, None, 0.01, Inconclusive, Some(TooFew)),
    ] {
        let side = reports(&[&[1.0]], None);
        let mut row = only(&side, &side, CompareOptions::default());
        (row.old.reports, row.reason) = (old, None);
        (row.interval, row.adjusted_p) = (interval, Some(adjusted_p));
        decide(&mut row, &CompareOptions::default());
        let found = (row.verdict, row.reason);
        assert_eq!(found, (verdict, reason), "{old} {interval:?} {adjusted_p}");
    }
}
