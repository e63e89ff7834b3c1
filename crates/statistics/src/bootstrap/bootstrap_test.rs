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

/// Three boots of five batches around 1: boots scatter by 5 %, the batches of a boot by a twentieth of that.
fn boots(random: &mut Random) -> Vec<Vec<f64>> {
    let normal = |random: &mut Random| {
        let uniform = |random: &mut Random| random.below(1000) as f64 / 1000.0;
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    };
    let boot = |_| {
        let of_boot = 0.05 * normal(random);
        let batch = |_| (of_boot + 0.0025 * normal(random)).exp();
        (0..5).map(batch).collect()
    };
    (0..3).map(boot).collect()
}

#[test]
fn batches_of_one_boot_are_no_rounds() {
    const TRIALS: u64 = 300;
    let mut random = Random::new(5);
    let (mut by_boots, mut by_batches) = (0, 0);
    for seed in 0..TRIALS {
        let (new, old) = (boots(&mut random), boots(&mut random));
        let holds_one = |ratio: Option<RatioOfMedians>| {
            let [low, high] = ratio.unwrap().interval.unwrap();
            u64::from(low <= 1.0 && 1.0 <= high)
        };
        by_boots += holds_one(ratio_of_boots(&new, &old, seed));
        by_batches += holds_one(ratio_of_medians(&new.concat(), &old.concat(), seed));
    }
    // The interval should contain the true ratio in 95 of 100 trials; the interval of three boots comes close.
    assert!(by_boots * 100 >= 90 * TRIALS, "{by_boots} of {TRIALS}");
    assert!(by_batches * 100 < 85 * TRIALS, "{by_batches} of {TRIALS}");
}

#[test]
fn boots_that_differ_in_nothing_have_an_interval_of_one_number_and_one_boot_has_none() {
    let same = |ns: f64, boots| vec![vec![ns; 5]; boots];
    let ratio = ratio_of_boots(&same(50.0, 3), &same(100.0, 3), 1).unwrap();
    assert!((ratio.value - 0.5).abs() < 1e-12);
    let [low, high] = ratio.interval.unwrap();
    assert!((high - low).abs() < 1e-12);
    let alone = ratio_of_boots(&same(50.0, 1), &same(100.0, 3), 1).unwrap();
    assert_eq!(alone.interval, None);
    assert_eq!(ratio_of_boots(&[], &same(100.0, 3), 1), None);
}
