//! The confidence interval of a ratio of two medians, by a percentile bootstrap.
//!
//! Samples with the same index were taken in the same round; between rounds the host drifts. So the
//! bootstrap draws whole rounds and not single samples: what slowed both subjects down in one round
//! cancels out in the resampled ratio, as it does in the measured one.

use super::random::Random;
use super::statistics::{median, percentile};

/// How many times the rounds are resampled; the ends of the interval settle well before this number.
const RESAMPLES: usize = 1000;

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The ratio of the medians of all samples.
    pub value: f64,
    /// The lower end: 2.5 % of the resampled ratios are below it. Never above `value`.
    pub low: f64,
    /// The upper end: 2.5 % of the resampled ratios are above it. Never below `value`.
    pub high: f64,
}

/// The median of `new` over the median of `old`; `None` if a list is empty or the median of `old` is
/// not positive. `seed` determines which rounds are drawn.
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
