//! How sure a ratio of two medians is: a percentile bootstrap.
//!
//! Samples with the same index were taken in the same round, minutes of drift apart from others.
//! So whole rounds are drawn, not single samples: what slowed both subjects down in a round cancels
//! out, as it does in the ratio itself.

use super::random::Random;
use super::statistics::{median, percentile};

/// How often rounds are drawn again; the ends of the interval settle well before.
const RESAMPLES: usize = 1000;

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The ratio of the medians.
    pub value: f64,
    /// 2.5 % of the resampled ratios lie below.
    pub low: f64,
    /// 2.5 % of them lie above.
    pub high: f64,
}

/// The median of `new` over the median of `old`; none if a list is empty or `old` is zero.
pub fn ratio_of_medians(new: &[f64], old: &[f64], seed: u64) -> Option<Interval> {
    let quotient = |new: &[f64], old: &[f64]| {
        let old = median(old).filter(|old| *old > 0.0)?;
        Some(median(new)? / old)
    };
    let value = quotient(new, old)?;
    let rounds = new.len().min(old.len());
    let mut random = Random::new(seed);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    let (mut new_drawn, mut old_drawn) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..RESAMPLES {
        new_drawn.clear();
        old_drawn.clear();
        for _ in 0..rounds {
            let round = random.below(rounds);
            new_drawn.push(new[round]);
            old_drawn.push(old[round]);
        }
        ratios.extend(quotient(&new_drawn, &old_drawn));
    }
    Some(Interval {
        value,
        low: percentile(&ratios, 0.025)?.min(value),
        high: percentile(&ratios, 0.975)?.max(value),
    })
}

#[cfg(test)]
#[path = "bootstrap_test.rs"]
mod tests;
