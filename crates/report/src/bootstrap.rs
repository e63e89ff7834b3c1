//! The confidence interval of a ratio of two medians, by a percentile bootstrap.
//!
//! Samples with the same index were taken in the same round; between rounds the host drifts. So the
//! bootstrap draws whole rounds and not single samples: what slowed both subjects down in one round
//! cancels out in the resampled ratio, as it does in the measured one.

use super::random::Random;
use super::statistics::{median, percentile};

/// How many times the rounds are resampled; the ends of the interval settle well before this number.
const RESAMPLES: usize = 1000;

/// With fewer rounds than this, resampling them says nothing about how they scatter.
const MIN_ROUNDS: usize = 3;

/// The ratio of two medians, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioOfMedians {
    /// The ratio of the medians of all samples.
    pub value: f64,
    /// The ends of the interval: 2.5 % of the resampled ratios are below the lower one and 2.5 % above the
    /// upper one, and `value` is between them. `None` if there are too few rounds to tell.
    pub interval: Option<[f64; 2]>,
}

/// The median of `new` over the median of `old`; `None` if a list is empty or the median of `old` is
/// not positive. `seed` determines which rounds are drawn.
pub fn ratio_of_medians(new: &[f64], old: &[f64], seed: u64) -> Option<RatioOfMedians> {
    let quotient = |new: &[f64], old: &[f64]| {
        let old = median(old).filter(|old| *old > 0.0)?;
        Some(median(new)? / old)
    };
    let value = quotient(new, old)?;
    let rounds = new.len().min(old.len());
    if rounds < MIN_ROUNDS {
        let interval = None;
        return Some(RatioOfMedians { value, interval });
    }
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
    let low = percentile(&ratios, 0.025)?.min(value);
    let high = percentile(&ratios, 0.975)?.max(value);
    Some(RatioOfMedians {
        value,
        interval: Some([low, high]),
    })
}

#[cfg(test)]
#[path = "bootstrap_test.rs"]
mod tests;
