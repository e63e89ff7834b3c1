//! Tests of the confidence interval.

use super::*;

fn noisy(centre: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..50)
        .map(|_| centre * (1.0 + f64::from(u32::try_from(random.below(100)).unwrap()) / 1000.0))
        .collect()
}

#[test]
fn a_seed_repeats_the_interval() {
    let (new, old) = (noisy(50.0, 1), noisy(100.0, 2));
    assert_eq!(
        ratio_of_medians(&new, &old, 7),
        ratio_of_medians(&new, &old, 7)
    );
}

#[test]
fn the_interval_holds_the_ratio() {
    let ratio = ratio_of_medians(&noisy(50.0, 1), &noisy(100.0, 2), 3).unwrap();
    let [low, high] = ratio.interval.unwrap();
    assert!(low <= ratio.value && ratio.value <= high);
    assert!((ratio.value - 0.5).abs() < 0.03, "{ratio:?}");
    assert!(high - low < 0.05, "{ratio:?}");
}

#[test]
fn drift_common_to_both_cancels_out() {
    let old: Vec<f64> = (0..40).map(|i| 100.0 + 10.0 * f64::from(i)).collect();
    let new: Vec<f64> = old.iter().map(|x| x / 4.0).collect();
    let ratio = ratio_of_medians(&new, &old, 3).unwrap();
    let [low, high] = ratio.interval.unwrap();
    assert!(high - low < 1e-9, "{ratio:?}");
}

#[test]
fn one_or_two_rounds_give_a_ratio_without_an_interval() {
    for rounds in [1, 2] {
        let ratio = ratio_of_medians(&vec![2.0; rounds], &vec![4.0; rounds], 0).unwrap();
        assert_eq!((ratio.value, ratio.interval), (0.5, None));
    }
    let ratio = ratio_of_medians(&[2.0; 3], &[4.0; 3], 0).unwrap();
    assert_eq!(ratio.interval, Some([0.5, 0.5]));
}

#[test]
fn nothing_to_compare_gives_nothing() {
    assert_eq!(ratio_of_medians(&[], &[1.0], 0), None);
    assert_eq!(ratio_of_medians(&[1.0], &[], 0), None);
    assert_eq!(ratio_of_medians(&[1.0], &[0.0], 0), None);
}
