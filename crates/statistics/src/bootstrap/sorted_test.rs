//! Tests of resampling.

use super::*;
use crate::median;

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

#[test]
fn the_middles_of_many_samples_scatter_as_those_of_samples_drawn_one_by_one() {
    let count = MANY + 1;
    let samples: Vec<f64> = (0..count).map(|x| x as f64).collect();
    let mut sorted = Sorted::of(samples);
    let mut random = Random::new(3);
    let mut spread = |resample: &mut dyn FnMut(&mut Random) -> f64| {
        let mut middles: Vec<f64> = (0..4000).map(|_| resample(&mut random)).collect();
        middles.sort_by(f64::total_cmp);
        [100, 1000, 2000, 3000, 3900].map(|rank| middles[rank])
    };
    let quick = spread(&mut |random| sorted.resample(random));
    let slow = spread(&mut |random| {
        let mut drawn: Vec<f64> = (0..count).map(|_| random.below(count) as f64).collect();
        median_in_place(&mut drawn)
    });
    for (quick, slow) in quick.into_iter().zip(slow) {
        assert!((quick - slow).abs() <= 2.5, "{quick} {slow}");
    }
}
