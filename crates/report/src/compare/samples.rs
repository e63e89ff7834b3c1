//! Synthetic reports whose noise is known: log-normal, with a part that a whole report shares and a part of each run.

use crate::sample;
use crate::{Random, Report};

/// How the rows of a synthetic report scatter, as standard deviations of the logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Of a whole report: all its rows move together.
    pub(super) of_reports: f64,
    /// Of a row in a report.
    pub(super) of_rows: f64,
    /// Of a single run.
    pub(super) of_runs: f64,
}

/// A number of the normal distribution (Box and Muller).
pub(super) fn normal(random: &mut Random) -> f64 {
    let mut uniform = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform()).cos()
}

/// A report of `rows` rows, each of which takes 1000 ns times `factor` of its index.
pub(super) fn report(
    rows: usize,
    runs: usize,
    noise: Noise,
    factor: impl Fn(usize) -> f64,
    random: &mut Random,
) -> Report {
    let mut report = sample::report();
    let model = report.results[0].clone();
    let shared = noise.of_reports * normal(random);
    let row = |index: usize| {
        let mut row = model.clone();
        row.command = format!("row-{index}");
        let own = shared + noise.of_rows * normal(random);
        let mut run = || 1000.0 * factor(index) * (own + noise.of_runs * normal(random)).exp();
        row.samples_ns = (0..runs).map(|_| run()).collect();
        row
    };
    report.results = (0..rows).map(row).collect();
    report
}
