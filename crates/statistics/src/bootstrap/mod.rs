//! The 95 % confidence interval of a ratio, from a percentile bootstrap: the one method for all comparisons here.
//!
//! A bootstrap must draw units that were measured independently. What these units are depends on the comparison:
//!
//! - rows of one report share the rounds, between which the host drifts: whole rounds are drawn ([`ratio_of_medians`]);
//! - VMMs are booted in turns, and batches of one boot have much in common: boots are drawn, and in each its batches
//!   ([`ratio_of_boots`]);
//! - several reports on each side: reports are drawn, in turns or for each side alone, and in each its runs (`levels`).

mod interval;
mod levels;
mod sorted;

use self::interval::{MIN_ROUNDS, ends};
pub use self::levels::{of_sides, of_turns};
pub use self::sorted::Sorted;
pub(crate) use self::sorted::median_in_place;
use crate::{Random, median};

/// How many times rounds and boots are resampled; the ends of the interval settle well before this number.
const RESAMPLES: usize = 1000;

/// With fewer boots than this, nothing is known about how they scatter.
const MIN_BOOTS: usize = 2;

/// The ratio of two medians, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioOfMedians {
    /// The ratio of the medians of all samples.
    pub value: f64,
    /// The ends of the interval: 2.5 % of the resampled ratios are below the lower one and 2.5 % above the upper one,
    /// and `value` is between them. `None` if there are too few samples.
    pub interval: Option<[f64; 2]>,
}

impl RatioOfMedians {
    /// Makes a ratio, and widens the interval to contain it: after few draws, the interval may not.
    fn new(value: f64, interval: Option<[f64; 2]>) -> Self {
        let interval = interval.map(|[low, high]| [low.min(value), high.max(value)]);
        Self { value, interval }
    }
}

/// The median of `new` over the median of `old`, where samples with the same index belong to the same round; `None` if
/// a list is empty or the median of `old` is not positive. `seed` determines which rounds are drawn.
///
/// What slowed both down in a round cancels out in the resampled ratios, as in the measured one.
pub fn ratio_of_medians(new: &[f64], old: &[f64], seed: u64) -> Option<RatioOfMedians> {
    let value = quotient(new, old)?;
    let rounds = new.len().min(old.len());
    if rounds < MIN_ROUNDS {
        return Some(RatioOfMedians::new(value, None));
    }
    let mut random = Random::new(seed);
    let (mut new_drawn, mut old_drawn) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    let draw = || {
        new_drawn.clear();
        old_drawn.clear();
        for _ in 0..rounds {
            let round = random.below(rounds);
            new_drawn.push(new[round]);
            old_drawn.push(old[round]);
        }
        quotient(&new_drawn, &old_drawn)
    };
    Some(RatioOfMedians::new(value, ends(RESAMPLES, draw)))
}

/// The median of all samples of `new` over the median of all samples of `old`. Each list has the batches of one boot,
/// and boots with the same index took turns. `None` as for [`ratio_of_medians`]. `seed` determines what is drawn.
pub fn ratio_of_boots(new: &[Vec<f64>], old: &[Vec<f64>], seed: u64) -> Option<RatioOfMedians> {
    let value = quotient(&new.concat(), &old.concat())?;
    let turns = new.len().min(old.len());
    let logs = |boots: &[Vec<f64>]| {
        boots[..turns]
            .iter()
            .map(|boot| Sorted::logs(boot))
            .collect()
    };
    let (new, old): (Option<Vec<Sorted>>, Option<Vec<Sorted>>) = (logs(new), logs(old));
    let both = old.zip(new).filter(|_| turns >= MIN_BOOTS);
    let random = &mut Random::new(seed);
    let interval = both.and_then(|(old, new)| of_turns(old, new, RESAMPLES, random));
    Some(RatioOfMedians::new(value, interval))
}

fn quotient(new: &[f64], old: &[f64]) -> Option<f64> {
    let old = median(old).filter(|old| *old > 0.0)?;
    Some(median(new)? / old)
}

#[cfg(test)]
#[path = "bootstrap_test.rs"]
mod tests;
