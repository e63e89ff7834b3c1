//! The interval of resampled numbers, and how much it takes to have one.

use crate::percentile;

/// With fewer rounds than this, resampling them says nothing about how they scatter.
pub(super) const MIN_ROUNDS: usize = 3;

/// The numbers below and above which 2.5 % of the draws lie; draws without a number are left out.
pub(super) fn ends(resamples: usize, draw: impl FnMut() -> Option<f64>) -> Option<[f64; 2]> {
    let draws: Vec<f64> = std::iter::repeat_with(draw)
        .take(resamples)
        .flatten()
        .collect();
    Some([percentile(&draws, 0.025)?, percentile(&draws, 0.975)?])
}
