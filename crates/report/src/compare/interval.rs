//! The 95 % confidence interval of a ratio, by a bootstrap of two levels: reports are drawn with replacement, and in each
//! drawn report its rounds.
//!
//! Few reports scatter less around their own middle than around the true one, and a resample of them still less. So their
//! distances from the middle are widened first, by as much as the t distribution is wider than the normal one. All is
//! done with logarithms, in which a ratio is a difference.

use crate::Random;
use crate::statistics::percentile;

/// With fewer rounds than this, resampling them says nothing about how they scatter.
const MIN_ROUNDS: usize = 3;

/// The reports of one side, or the turns of both: for each, the logarithms of the samples.
pub(super) type Logs = Vec<Vec<f64>>;

/// The interval of the ratio of two sides that were measured apart; `None` if one side is a single report of too few
/// rounds.
pub(super) fn of_sides(
    old: &Logs,
    new: &Logs,
    resamples: usize,
    random: &mut Random,
) -> Option<[f64; 2]> {
    let (mut old, mut new) = (Drawn::of(old)?, Drawn::of(new)?);
    ends(resamples, || new.draw(random) - old.draw(random))
}

/// The interval of the median over turns of the turns' ratios; there are at least two turns.
pub(super) fn of_turns(
    old: &Logs,
    new: &Logs,
    resamples: usize,
    random: &mut Random,
) -> Option<[f64; 2]> {
    let mut scratch = Vec::new();
    let mut middle = |samples: &Vec<f64>| middle_of(samples, &mut scratch);
    let turns = new.iter().zip(old);
    let ratios: Vec<f64> = turns.map(|(new, old)| middle(new) - middle(old)).collect();
    let centre = middle(&ratios);
    let widening = widening(ratios.len());
    let mut drawn = Vec::with_capacity(ratios.len());
    ends(resamples, || {
        drawn.clear();
        for _ in 0..ratios.len() {
            let turn = random.below(ratios.len());
            let ratio = resampled(&new[turn], &mut scratch, random)
                - resampled(&old[turn], &mut scratch, random);
            drawn.push(ratio + (widening - 1.0) * (ratios[turn] - centre));
        }
        median_in_place(&mut drawn)
    })
}

/// One side with buffers for its resamples.
struct Drawn<'l> {
    reports: &'l Logs,
    middles: Vec<f64>,
    centre: f64,
    widening: f64,
    scratch: Vec<f64>,
    drawn: Vec<f64>,
}

impl<'l> Drawn<'l> {
    fn of(reports: &'l Logs) -> Option<Self> {
        let mut scratch = Vec::new();
        let middles: Vec<f64> = reports
            .iter()
            .map(|samples| middle_of(samples, &mut scratch))
            .collect();
        let widening = match reports.as_slice() {
            [] => return None,
            [only] if only.len() < MIN_ROUNDS => return None,
            [only] => widening(only.len()),
            several => widening(several.len()),
        };
        let centre = middle_of(&middles, &mut scratch);
        Some(Self {
            reports,
            middles,
            centre,
            widening,
            scratch,
            drawn: Vec::new(),
        })
    }

    /// The logarithm of the side's median in one resample.
    fn draw(&mut self, random: &mut Random) -> f64 {
        let Self {
            reports,
            middles,
            centre,
            widening,
            scratch,
            drawn,
        } = self;
        if let [only] = reports.as_slice() {
            return *centre + *widening * (resampled(only, scratch, random) - *centre);
        }
        drawn.clear();
        for _ in 0..reports.len() {
            let report = random.below(reports.len());
            let middle = resampled(&reports[report], scratch, random);
            drawn.push(middle + (*widening - 1.0) * (middles[report] - *centre));
        }
        median_in_place(drawn)
    }
}

/// The ratios below and above which 2.5 % of the draws lie.
fn ends(resamples: usize, mut draw: impl FnMut() -> f64) -> Option<[f64; 2]> {
    let draws: Vec<f64> = (0..resamples).map(|_| draw()).collect();
    Some([
        percentile(&draws, 0.025)?.exp(),
        percentile(&draws, 0.975)?.exp(),
    ])
}

/// The median of as many samples as there are, drawn with replacement.
fn resampled(samples: &[f64], scratch: &mut Vec<f64>, random: &mut Random) -> f64 {
    scratch.clear();
    scratch.extend((0..samples.len()).map(|_| samples[random.below(samples.len())]));
    median_in_place(scratch)
}

fn middle_of(samples: &[f64], scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend_from_slice(samples);
    median_in_place(scratch)
}

/// The median of `values`, which are put in another order; NaN if there are none.
pub(super) fn median_in_place(values: &mut [f64]) -> f64 {
    let half = values.len() / 2;
    if values.is_empty() {
        return f64::NAN;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, middle, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if is_odd {
        return *middle;
    }
    let under = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(under, *middle)
}

/// How much wider `count` values must scatter for their resamples to cover the true middle as often as they claim: by
/// sqrt(n / (n - 1)), since they scatter around their own middle, and by the quotient of the quantiles of Student's t and
/// the normal distribution, since their scatter is itself only an estimate.
fn widening(count: usize) -> f64 {
    const NORMAL: f64 = 1.959_964;
    let n = count as f64;
    let free = n - 1.0;
    let student = match count {
        0 | 1 => return 1.0,
        2 => 12.7062,
        3 => 4.3027,
        4 => 3.1824,
        5 => 2.7764,
        // The expansion of Cornish and Fisher, whose error is below 0.003 from here on.
        _ => {
            let z = NORMAL;
            let first = (z.powi(3) + z) / (4.0 * free);
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * free.powi(2));
            let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z)
                / (384.0 * free.powi(3));
            z + first + second + third
        }
    };
    (n / free).sqrt() * student / NORMAL
}

#[cfg(test)]
#[path = "interval_test.rs"]
mod tests;
