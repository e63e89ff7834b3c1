//! Centre, spread and percentiles of a list of samples.
//!
//! The report shows the median and the median absolute deviation first, because on a busy host one descheduled run
//! moves a mean and a standard deviation by any amount. Both pairs are computed.

/// The ratio of a normal distribution's standard deviation to its median absolute deviation.
pub(crate) const MAD_TO_SIGMA: f64 = 1.4826;

/// The statistics of one list of samples, all in the samples' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation (n - 1); `None` for a single sample.
    pub stddev: Option<f64>,
    /// The median.
    pub median: f64,
    /// The median absolute deviation: the median of the distances from the median.
    pub mad: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
}

impl Summary {
    /// Summarises `samples`; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let median = median(samples)?;
        let deviations: Vec<f64> = samples.iter().map(|x| (x - median).abs()).collect();
        let mean = mean(samples);
        Some(Self {
            mean,
            stddev: stddev(samples, mean),
            median,
            mad: self::median(&deviations)?,
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// The robust standard deviation as a share of the median; 0 if the median is 0.
    pub fn relative_spread(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        MAD_TO_SIGMA * self.mad / self.median
    }
}

/// The standard error of the mean as a share of the mean, as `perf stat` prints it; `None` for fewer than two samples.
#[allow(
    clippy::cast_precision_loss,
    reason = "lists are far shorter than 2^53"
)]
pub fn error_of_mean(samples: &[f64]) -> Option<f64> {
    let summary = Summary::of(samples)?;
    let stddev = summary.stddev?;
    if summary.mean == 0.0 {
        return Some(0.0);
    }
    Some(stddev / (samples.len() as f64).sqrt() / summary.mean)
}

/// The middle value, or the mean of the two middle values; `None` if there are no samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 0.5)
}

/// The value below which the share `p` (0 to 1) of the samples lies, interpolated linearly
/// between neighbours.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index within the list, computed from its length"
)]
pub fn percentile(samples: &[f64], p: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = p.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let below = sorted.get(rank.floor() as usize)?;
    let above = sorted.get(rank.ceil() as usize)?;
    Some(below + (above - below) * rank.fract())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "lists are far shorter than 2^53"
)]
fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[allow(
    clippy::cast_precision_loss,
    reason = "lists are far shorter than 2^53"
)]
fn stddev(samples: &[f64], mean: f64) -> Option<f64> {
    let degrees = samples.len().checked_sub(1).filter(|n| *n > 0)?;
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    Some((squares / degrees as f64).sqrt())
}

#[cfg(test)]
#[path = "summary_test.rs"]
mod tests;
