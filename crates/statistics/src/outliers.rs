//! Finds outliers among samples by their distance from the median in median absolute deviations, as the
//! modified z-score of Iglewicz and Hoaglin does.

use crate::summary::{MAD_TO_SIGMA, median};

/// The distance from the median beyond which a sample is an outlier, in units of the MAD: ten robust standard
/// deviations.
pub const THRESHOLD: f64 = 10.0 * MAD_TO_SIGMA;

/// The outliers among one list of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outliers {
    /// How many outliers there are.
    pub count: usize,
    /// The share of the samples that are outliers, from 0 to 1.
    pub share: f64,
    /// How far the median moves when the outliers are left out, as a share of the median.
    pub median_shift: f64,
}

impl Outliers {
    /// Finds the outliers of `samples`. If the MAD is 0 (more than half of the samples are equal), there are none:
    /// every other value would be infinitely far away.
    #[allow(
        clippy::cast_precision_loss,
        reason = "lists are far shorter than 2^53"
    )]
    pub fn of(samples: &[f64]) -> Self {
        let Some(centre) = median(samples) else {
            return Self::default();
        };
        let deviations: Vec<f64> = samples.iter().map(|x| (x - centre).abs()).collect();
        let mad = median(&deviations).unwrap_or_default();
        if mad == 0.0 {
            return Self::default();
        }
        let kept: Vec<f64> = samples
            .iter()
            .copied()
            .filter(|x| (x - centre).abs() / mad <= THRESHOLD)
            .collect();
        let count = samples.len() - kept.len();
        let without = median(&kept).unwrap_or(centre);
        Self {
            count,
            share: count as f64 / samples.len() as f64,
            median_shift: if centre == 0.0 {
                0.0
            } else {
                ((without - centre) / centre).abs()
            },
        }
    }
}

#[cfg(test)]
#[path = "outliers_test.rs"]
mod tests;
