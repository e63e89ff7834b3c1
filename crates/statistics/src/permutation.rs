//! P-values by permutation: how often random labels give a difference at least as large as the measured one.
//!
//! Unlike an interval from few runs, a permutation test is valid for any distribution and any number of runs. If there
//! are few permutations, all of them are tried. Otherwise a random sample is drawn, and the measured labels are counted
//! as one of the sample, so that no p-value is zero.

use crate::Random;
use crate::bootstrap::median_in_place;

/// Up to this number of permutations, all are tried. If there are more, `MOST - 1` are drawn at random.
const MOST: u64 = 1 << 14;

/// With more values than this on each side, nothing is drawn: the sums of ranks are then normally distributed.
const MANY: usize = 500;

/// The p-value of the logarithms of the turns' ratios, whose signs would be random if nothing had changed. There is at
/// least one ratio.
///
/// The logarithms are summed after clipping at the median of their sizes, so that a turn in which something disturbed
/// one side has no larger weight than others. The clipping is the same for all signs, so the test stays exact.
pub fn of_turns(ratios: &[f64], random: &mut Random) -> f64 {
    let mut sizes: Vec<f64> = ratios.iter().map(|ratio| ratio.abs()).collect();
    let most = match median_in_place(&mut sizes) {
        most if most > 0.0 => most,
        _ => f64::INFINITY,
    };
    let scores: Vec<f64> = ratios
        .iter()
        .map(|ratio| ratio.clamp(-most, most))
        .collect();
    let sum: f64 = scores.iter().sum();
    let least = reached(sum, &scores);
    // Flipping all signs gives the same size, so the last turn can keep its sign.
    let patterns = 1_u64.checked_shl(u32::try_from(scores.len() - 1).unwrap_or(u32::MAX));
    if let Some(patterns) = patterns.filter(|patterns| *patterns <= MOST) {
        let (mut signs, mut sum) = (scores, sum);
        let mut hits = 0;
        for pattern in 1..=patterns {
            hits += usize::from(sum.abs() >= least);
            // A Gray code: each pattern differs from the previous one in a single sign.
            let turn = pattern.trailing_zeros() as usize;
            sum -= 2.0 * signs[turn];
            signs[turn] = -signs[turn];
        }
        return share(hits, patterns);
    }
    let mut bits = 0;
    let hits = (1..MOST).filter(|_| {
        let mut sum = 0.0;
        for (turn, score) in scores.iter().enumerate() {
            if turn % 64 == 0 {
                bits = random.next();
            }
            sum += if bits >> (turn % 64) & 1 == 1 {
                *score
            } else {
                -score
            };
        }
        sum.abs() >= least
    });
    share(hits.count() + 1, MOST)
}

/// The p-value of two lists whose values would be interchangeable if nothing had changed: the Wilcoxon-Mann-Whitney
/// test, which compares ranks.
pub fn of_sides(old: &[f64], new: &[f64], random: &mut Random) -> f64 {
    let pooled: Vec<f64> = old.iter().chain(new).copied().collect();
    let mut scores = centred_ranks(&pooled);
    let sum: f64 = scores[old.len()..].iter().sum();
    let least = reached(sum, &scores);
    let count = scores.len();
    match choices(count, new.len()).filter(|choices| *choices <= MOST && count < 64) {
        Some(choices) => {
            let mut hits = 0;
            let mut chosen = (1_u64 << new.len()) - 1;
            for _ in 0..choices {
                let in_new = |rank: &usize| chosen >> rank & 1 == 1;
                let sum: f64 = (0..count).filter(in_new).map(|rank| scores[rank]).sum();
                hits += usize::from(sum.abs() >= least);
                chosen = next_choice(chosen);
            }
            share(hits, choices)
        }
        None if old.len().min(new.len()) > MANY => share_of_normal(least, &scores, new.len()),
        None => {
            let fewer = old.len().min(new.len());
            let hits = (1..MOST).filter(|_| {
                let mut sum = 0.0;
                // The sum of one side is minus the sum of the other.
                for place in 0..fewer {
                    scores.swap(place, place + random.below(count - place));
                    sum += scores[place];
                }
                sum.abs() >= least
            });
            share(hits.count() + 1, MOST)
        }
    }
}

/// The share of all permutations whose sum of `chosen` scores is at least as far from zero as `least`, from the normal
/// distribution of such sums.
fn share_of_normal(least: f64, scores: &[f64], chosen: usize) -> f64 {
    let (count, chosen) = (scores.len() as f64, chosen as f64);
    let squares: f64 = scores.iter().map(|score| score * score).sum();
    let variance = squares * chosen * (count - chosen) / (count * (count - 1.0));
    if variance == 0.0 {
        return 1.0;
    }
    let x = least.max(0.0) / (2.0 * variance).sqrt();
    // The complementary error function, to 2e-7 (Abramowitz and Stegun, 7.1.26).
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let factors = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let series = factors.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    // The p-value is not smaller than the smallest one that draws can give for a shorter list.
    (series * (-x * x).exp()).clamp(1.0 / MOST as f64, 1.0)
}

/// The smallest p-value that [`of_turns`] can give for this number of turns.
pub fn least_of_turns(turns: usize) -> f64 {
    let signs = i32::try_from(turns).unwrap_or(i32::MAX).saturating_sub(1);
    0.5_f64.powi(signs).max(1.0 / MOST as f64)
}

/// The smallest p-value that [`of_sides`] can give for lists of this length.
pub fn least_of_sides(old: usize, new: usize) -> f64 {
    // The highest ranks and the lowest ones are equally far from the middle.
    let exact = choices(old + new, new).map_or(0.0, |choices| 2.0 / choices as f64);
    exact.max(1.0 / MOST as f64)
}

/// The smallest sum that counts as being at least as far from zero as `sum`: sums of the same scores in different
/// orders differ in their last digits.
fn reached(sum: f64, scores: &[f64]) -> f64 {
    let all: f64 = scores.iter().map(|score| score.abs()).sum();
    sum.abs() - 1e-9 * all
}

fn share(hits: usize, of: u64) -> f64 {
    hits as f64 / of as f64
}

/// Twice the rank of each value, where ties share their mean rank, minus twice the mean of all ranks.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other.total_cmp(value).is_lt());
        let above = sorted.partition_point(|other| other.total_cmp(value).is_le());
        (below + above) as f64 - sorted.len() as f64
    };
    values.iter().map(rank).collect()
}

/// The number of ways to choose `k` of `n`; `None` if it does not fit into 64 bits.
fn choices(n: usize, k: usize) -> Option<u64> {
    let k = k.min(n - k) as u64;
    let n = n as u64;
    // Each intermediate result is itself a number of ways, so every division is exact.
    (0..k).try_fold(1_u64, |ways, step| {
        Some(ways.checked_mul(n - step)? / (step + 1))
    })
}

/// The next larger number with the same number of bits set (Gosper's hack).
const fn next_choice(chosen: u64) -> u64 {
    let lowest = chosen & chosen.wrapping_neg();
    let ripple = chosen + lowest;
    ripple | (((chosen ^ ripple) >> 2) / lowest)
}

#[cfg(test)]
#[path = "permutation_test.rs"]
mod tests;
