//! Which samples do not belong: the modified z-score of Iglewicz and Hoaglin.

use super::statistics::{MAD_TO_SIGMA, median};

/// Ten robust standard deviations away from the median, in units of the MAD.
pub const THRESHOLD: f64 = 10.0 * MAD_TO_SIGMA;

/// Outliers of one list of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outliers {
    /// How many there are.
    pub count: usize,
    /// Their share of the samples.
    pub share: f64,
    /// How far the median moves when they are taken out, as a share of it.
    pub median_shift: f64,
}

impl Outliers {
    /// Looks for them. Samples without any spread (more than half are equal) have none: every
    /// other value would be infinitely far away.
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
