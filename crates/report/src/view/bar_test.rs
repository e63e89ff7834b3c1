use super::*;
use crate::sample;

/// A report whose first rows have these medians; the other rows have none.
fn report(medians: &[f64]) -> Report {
    let mut report = sample::report();
    let model = report.results[0].clone();
    for (index, row) in report.results.iter_mut().enumerate() {
        match medians.get(index) {
            Some(median) => {
                row.outcome = model.outcome.clone();
                sample::of(row).times.median = *median;
            }
            None => row.outcome = crate::Outcome::Skipped { reason: None },
        }
    }
    report
}

#[test]
fn numbers_that_are_close_are_compared_on_a_linear_scale() {
    let scale = BarScale::of(&report(&[100.0, 200.0, 50.0])).unwrap();
    assert_eq!(scale, BarScale::Linear(200.0));
    assert_eq!(scale.bar(200.0), "████████████");
    assert_eq!(scale.bar(100.0), "██████");
    assert_eq!(scale.bar(51.0), "███");
}

#[test]
fn numbers_that_are_far_apart_are_compared_by_factors() {
    let report = report(&[2.0, 800_000.0]);
    let scale = BarScale::of(&report).unwrap();
    assert_eq!(scale.title(&report, None), "log 1 ns-1 ms");
    assert_eq!(scale.bar(1e6), "████████████");
    assert_eq!(scale.bar(1e3), "██████");
    assert_eq!(scale.bar(1e1), "██");
}

#[test]
fn every_bar_is_seen_and_none_is_wider_than_another() {
    for scale in [BarScale::Linear(10.0), BarScale::Logarithmic(1.0, 1e6)] {
        for ns in [0.0, 1e-9, 1.0, 9.99, 1e6, 1e12, f64::NAN] {
            let bar = scale.bar(ns);
            assert!((1..=WIDTH).contains(&bar.chars().count()), "{bar:?}");
            assert!(!bar.starts_with(' '), "{scale:?} {ns}");
        }
    }
}

#[test]
fn nothing_measured_has_no_scale() {
    assert_eq!(BarScale::of(&report(&[])), None);
    assert_eq!(BarScale::of(&report(&[0.0])), None);
}

#[test]
fn the_ends_of_a_scale_have_the_unit_that_fits_and_counts_have_none() {
    for (value, timing, text) in [
        (1e9, Timing::Native, "1 s"),
        (1e7, Timing::Emulated, "10 ms"),
        (1e3, Timing::Native, "1 µs"),
        (1e2, Timing::Native, "100 ns"),
        (1e-1, Timing::Native, "100 ps"),
        (1e4, Timing::Instructions, "10000"),
    ] {
        assert_eq!(rounded(value, timing), text);
    }
}
