//! One row of a comparison: its numbers, and the verdict that follows from them.

use vmbell_statistics::bootstrap::{self, Sorted};
use vmbell_statistics::{Random, median, permutation};

use super::matching::MatchedRow;
use super::{ALPHA, CompareOptions, ComparedRow, NoVerdict, Pairing, Side, Verdict, counted};
use crate::{Row, Times};

/// The numbers of the row with this index. Its verdict follows once all p-values are known, unless it has no p-value.
pub(super) fn row(matched: &MatchedRow<'_>, index: usize, options: &CompareOptions) -> ComparedRow {
    let (old, new) = (SideSamples::of(&matched.old), SideSamples::of(&matched.new));
    let in_turns = options.pairing == Pairing::Turns && old.medians.len() > 1;
    let mut row = ComparedRow {
        key: matched.key.clone(),
        old: old.side,
        new: new.side,
        ratio: ratio(&old, &new, in_turns),
        interval: None,
        p: None,
        adjusted_p: None,
        verdict: Verdict::Inconclusive,
        reason: None,
    };
    if matched.is_counted {
        counted::decide(&mut row, &old.all(), &new.all());
        return row;
    }
    let (Some(ratio), Some(old_logs), Some(new_logs)) = (row.ratio, old.logs(), new.logs()) else {
        row.ratio = None;
        row.reason = Some(NoVerdict::NotPositive);
        return row;
    };
    if old.side.is_bound && new.side.is_bound {
        row.ratio = None;
        row.reason = Some(NoVerdict::BelowResolution);
        return row;
    }
    if (row.old.reports, row.new.reports) == (1, 1) {
        row.reason = Some(NoVerdict::OneReport);
        return row;
    }
    // Each row has its own random draws, independent of the number of rows.
    let seed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = Random::new(options.seed ^ seed);
    let resamples = options.resamples;
    row.interval = if in_turns {
        bootstrap::of_turns(old_logs, new_logs, resamples, &mut random)
    } else {
        bootstrap::of_sides(old_logs, new_logs, resamples, &mut random)
    };
    // An interval from few draws need not contain the ratio.
    row.interval = row
        .interval
        .map(|[low, high]| [low.min(ratio), high.max(ratio)]);
    row.p = Some(if in_turns {
        let turns = new.medians.iter().zip(&old.medians);
        let ratios: Vec<f64> = turns.map(|(new, old)| (new / old).ln()).collect();
        permutation::of_turns(&ratios, &mut random)
    } else {
        permutation::of_sides(&old.medians, &new.medians, &mut random)
    });
    row
}

fn ratio(old: &SideSamples, new: &SideSamples, in_turns: bool) -> Option<f64> {
    let ratio = if in_turns {
        let turns = new.medians.iter().zip(&old.medians);
        let ratios: Vec<f64> = turns.map(|(new, old)| (new / old).ln()).collect();
        median(&ratios)?.exp()
    } else {
        new.side.median_ns / old.side.median_ns
    };
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The minimum p-value that this many reports of each side can give.
pub(super) fn least_p(old: usize, new: usize, pairing: Pairing) -> f64 {
    match pairing {
        Pairing::Turns => permutation::least_of_turns(old.min(new)),
        Pairing::Apart => permutation::least_of_sides(old, new),
    }
}

/// Sets the verdict of a row that has p-values.
pub(super) fn decide(row: &mut ComparedRow, options: &CompareOptions) {
    let Some(adjusted_p) = row.adjusted_p else {
        return;
    };
    let Some([low, high]) = row.interval else {
        row.reason = Some(NoVerdict::TooFew);
        return;
    };
    let is_significant = adjusted_p <= ALPHA;
    row.verdict = if is_significant && high < 1.0 {
        Verdict::Faster
    } else if is_significant && low > 1.0 {
        Verdict::Slower
    } else if low >= 1.0 - options.band && high <= 1.0 + options.band {
        Verdict::Same
    } else {
        let least = least_p(row.old.reports, row.new.reports, options.pairing);
        row.reason = Some(if least > ALPHA {
            NoVerdict::TooFew
        } else if low <= 1.0 && high >= 1.0 {
            NoVerdict::WideInterval
        } else {
            NoVerdict::NotSignificant
        });
        Verdict::Inconclusive
    };
}

/// The samples of one side. Samples below the row's resolution are raised to it, because nothing more is known of them.
struct SideSamples {
    reports: Vec<Vec<f64>>,
    medians: Vec<f64>,
    side: Side,
}

impl SideSamples {
    fn of(rows: &[&Row]) -> Self {
        let all = || rows.iter().filter_map(|row| row.times());
        let raised = |times: &Times| {
            let least = times.resolution.unwrap_or(f64::NEG_INFINITY);
            times.samples.iter().map(|ns| ns.max(least)).collect()
        };
        let reports: Vec<Vec<f64>> = all().map(raised).collect();
        let middle = |samples: &Vec<f64>| median(samples).unwrap_or(f64::NAN);
        let medians: Vec<f64> = reports.iter().map(middle).collect();
        let median_ns = middle(&medians);
        let resolution = all().filter_map(|times| times.resolution).reduce(f64::max);
        Self {
            side: Side {
                median_ns,
                reports: reports.len(),
                runs: reports.iter().map(Vec::len).sum(),
                is_bound: resolution.is_some_and(|resolution| median_ns <= resolution),
            },
            reports,
            medians,
        }
    }

    /// The samples of all reports.
    fn all(&self) -> Vec<f64> {
        self.reports.iter().flatten().copied().collect()
    }

    /// The logarithms of the samples; `None` if a sample has no logarithm.
    fn logs(&self) -> Option<Vec<Sorted>> {
        self.reports
            .iter()
            .map(|samples| Sorted::logs(samples))
            .collect()
    }
}

#[cfg(test)]
#[path = "estimate_test.rs"]
mod tests;
