//! The median of a list of samples and of its resamples, computed without an allocation for each resample.

use crate::Random;

/// The maximum number of samples that are drawn one by one, so that the time of a resample is bounded for any report.
pub(super) const MANY: usize = 500;

/// The samples of one report, sorted.
#[derive(Clone, Debug)]
pub struct Sorted {
    samples: Vec<f64>,
    /// How often each sample is in the current resample.
    drawn: Vec<u32>,
}

impl Sorted {
    /// Sorts the logarithms of `samples`; `None` if there are no samples, or if a sample has no logarithm.
    pub fn logs(samples: &[f64]) -> Option<Self> {
        let log = |sample: &f64| Some(sample.ln()).filter(|log| log.is_finite());
        let logs: Option<Vec<f64>> = samples.iter().map(log).collect();
        logs.filter(|logs| !logs.is_empty()).map(Self::of)
    }

    /// Sorts `samples`, which must not be empty.
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_unstable_by(f64::total_cmp);
        let drawn = vec![0; samples.len()];
        Self { samples, drawn }
    }

    pub(super) const fn len(&self) -> usize {
        self.samples.len()
    }

    pub(super) fn median(&self) -> f64 {
        let (under, over) = self.middles();
        f64::midpoint(self.samples[under], self.samples[over])
    }

    /// The median of a resample: of the same number of samples, drawn with replacement.
    ///
    /// The samples are sorted, so it is enough to count how often each is drawn, which is faster than sorting or
    /// selecting. With more than [`MANY`] samples, only the rank of the median is drawn: the number of draws in the
    /// lower half has a binomial distribution, which is then close to a normal one.
    pub(super) fn resample(&mut self, random: &mut Random) -> f64 {
        let count = self.len();
        if count > MANY {
            return self.samples[rank_of_middle(count, random)];
        }
        self.drawn.fill(0);
        for _ in 0..count {
            self.drawn[random.below(count)] += 1;
        }
        let (under, over) = self.middles();
        let mut place = 0;
        let mut passed = self.drawn[0] as usize;
        let mut at = |rank: usize| {
            while passed <= rank {
                place += 1;
                passed += self.drawn[place] as usize;
            }
            self.samples[place]
        };
        f64::midpoint(at(under), at(over))
    }

    /// The ranks of the two middle values, which are equal if the number of samples is odd.
    const fn middles(&self) -> (usize, usize) {
        ((self.samples.len() - 1) / 2, self.samples.len() / 2)
    }
}

/// The rank, among `count` sorted samples, of the median of `count` draws.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rank below `count`"
)]
fn rank_of_middle(count: usize, random: &mut Random) -> usize {
    let (last, deviation) = ((count - 1) as f64, (count as f64).sqrt() / 2.0);
    let rank = last / 2.0 + deviation * random.normal();
    rank.round().clamp(0.0, last) as usize
}

/// The median of `values`, which are reordered; NaN if there are none.
pub(crate) fn median_in_place(values: &mut [f64]) -> f64 {
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

#[cfg(test)]
#[path = "sorted_test.rs"]
mod tests;
