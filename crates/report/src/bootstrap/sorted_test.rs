//! Tests of resampling.

use super::*;
use crate::statistics::median;

#[test]
fn the_median_in_place_is_that_of_a_sorted_list() {
    assert_eq!(median_in_place(&mut [3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median_in_place(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
    assert!(median_in_place(&mut []).is_nan());
}

#[test]
fn a_resample_has_the_median_of_the_samples_that_it_draws() {
    for count in 1..12_u32 {
        let samples: Vec<f64> = (0..count).map(|x| f64::from(x * x)).collect();
        let mut sorted = Sorted::of(samples.iter().rev().copied().collect());
        assert_eq!(Some(sorted.median()), median(&samples));
        let (mut one, mut same) = (Random::new(count.into()), Random::new(count.into()));
        for _ in 0..50 {
            let draw = |_: &f64| samples[one.below(samples.len())];
            let drawn: Vec<f64> = samples.iter().map(draw).collect();
            assert_eq!(Some(sorted.resample(&mut same)), median(&drawn));
        }
    }
}
