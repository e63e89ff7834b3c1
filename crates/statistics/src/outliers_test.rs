//! Tests of outlier detection.

use super::*;

#[test]
fn a_sample_ten_sigmas_away_is_an_outlier() {
    let mut samples: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
    samples.push(500.0);
    let outliers = Outliers::of(&samples);
    assert_eq!(outliers.count, 1);
    assert!((outliers.share - 1.0 / 21.0).abs() < 1e-12);
    assert!(outliers.median_shift < 0.01);
}

#[test]
fn an_even_spread_has_no_outliers() {
    let samples: Vec<f64> = (0..20).map(f64::from).collect();
    assert_eq!(Outliers::of(&samples), Outliers::default());
}

#[test]
fn equal_samples_have_no_outliers() {
    assert_eq!(
        Outliers::of(&[5.0, 5.0, 5.0, 5.0, 9.0]),
        Outliers::default()
    );
}

#[test]
fn no_samples_have_no_outliers() {
    assert_eq!(Outliers::of(&[]), Outliers::default());
}

#[test]
fn many_outliers_move_the_median() {
    let samples = [10.0, 10.1, 10.2, 9.9, 10.3, 900.0, 901.0, 902.0, 903.0];
    let outliers = Outliers::of(&samples);
    assert_eq!(outliers.count, 4);
    assert!(outliers.median_shift > 0.005);
}
