//! The arithmetic on measured samples that a report and a comparison are made with.
//!
//! [`Summary`] and [`median`] describe one list of samples, and [`Outliers`] finds those far from the rest.
//! [`bootstrap`] gives the interval of a ratio, [`permutation`] the p-value of a difference. Both draw from [`Random`],
//! so that a seed repeats them.
//!
//! A separate crate, so that only it is compiled with optimization: its tests run millions of draws.

pub mod bootstrap;
mod outliers;
pub mod permutation;
mod random;
mod summary;

pub use outliers::Outliers;
pub use random::Random;
pub use summary::{Summary, error_of_mean, median, percentile};
