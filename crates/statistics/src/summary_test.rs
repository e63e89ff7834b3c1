//! Tests of the summary.

use super::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn median_of_nothing_is_nothing() {
    assert_eq!(median(&[]), None);
    assert_eq!(Summary::of(&[]), None);
}

#[test]
fn median_of_two_is_their_mean() {
    assert_eq!(median(&[3.0, 1.0]), Some(2.0));
}

#[test]
fn median_ignores_one_wild_sample() {
    assert_eq!(median(&[1.0, 2.0, 3.0, 4.0, 1e9]), Some(3.0));
}

#[test]
fn one_sample_has_no_standard_deviation() {
    let summary = Summary::of(&[7.0]).unwrap();
    assert_eq!(summary.stddev, None);
    assert!(close(summary.mad, 0.0));
    assert!(close(summary.median, 7.0));
    assert!(close(summary.relative_spread(), 0.0));
}

#[test]
fn standard_deviation_divides_by_one_less_than_the_count() {
    let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert!(close(summary.stddev.unwrap(), (32.0_f64 / 7.0).sqrt()));
}

#[test]
fn mad_of_a_known_list() {
    let summary = Summary::of(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]).unwrap();
    assert!(close(summary.mad, 1.0));
    assert!(close(summary.relative_spread(), MAD_TO_SIGMA / 2.0));
}

#[test]
fn percentiles_interpolate_between_neighbours() {
    let samples = [10.0, 20.0, 30.0, 40.0];
    assert!(close(percentile(&samples, 0.0).unwrap(), 10.0));
    assert!(close(percentile(&samples, 1.0).unwrap(), 40.0));
    assert!(close(percentile(&samples, 0.5).unwrap(), 25.0));
    assert!(close(percentile(&samples, 0.9).unwrap(), 37.0));
}

#[test]
fn min_and_max_are_the_ends() {
    let summary = Summary::of(&[3.0, -1.0, 2.0]).unwrap();
    assert!(close(summary.min, -1.0));
    assert!(close(summary.max, 3.0));
}

#[test]
fn the_error_is_that_of_the_mean() {
    // The standard deviation is sqrt(16/3), the mean 10, and there are four runs.
    let error = error_of_mean(&[8.0, 8.0, 12.0, 12.0]).unwrap();
    assert!((error - (16.0_f64 / 3.0).sqrt() / 2.0 / 10.0).abs() < 1e-12);
    assert_eq!(error_of_mean(&[5.0]), None);
    assert_eq!(error_of_mean(&[0.0, 0.0]), Some(0.0));
}
