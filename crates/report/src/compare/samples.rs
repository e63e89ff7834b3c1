//! Synthetic reports with known noise: log-normal, with a part for each report and a part for each run.

use super::{CompareOptions, Comparison, Pairing, compare};
use crate::Report;
use crate::sample;
use vmbell_statistics::Random;

/// How much the rows of a synthetic report scatter, as standard deviations of the logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// The scatter of whole reports: all rows of a report move together.
    pub(super) of_reports: f64,
    /// The scatter of a row between reports.
    pub(super) of_rows: f64,
    /// The scatter of single runs.
    pub(super) of_runs: f64,
}

/// A report of `rows` rows, each of which takes 1000 ns times the `factor` for its index.
pub(super) fn report(
    rows: usize,
    runs: usize,
    noise: Noise,
    factor: impl Fn(usize) -> f64,
    random: &mut Random,
) -> Report {
    let mut report = sample::report();
    let model = report.results[0].clone();
    let shared = noise.of_reports * random.normal();
    let row = |index: usize| {
        let mut row = model.clone();
        row.command = format!("row-{index}");
        let own = shared + noise.of_rows * random.normal();
        let mut run = || 1000.0 * factor(index) * (own + noise.of_runs * random.normal()).exp();
        sample::of(&mut row).times.samples = (0..runs).map(|_| run()).collect();
        row
    };
    report.results = (0..rows).map(row).collect();
    report
}

/// A comparison with a row for each verdict, a row that only one side has for each side, and reports that differ.
pub(super) fn comparison() -> Comparison {
    let noise = Noise {
        of_reports: 0.0,
        of_rows: 0.01,
        of_runs: 0.01,
    };
    let mut random = Random::new(3);
    let mut side = |factors: [f64; 4], alone: &str, kernel: &str| -> Vec<Report> {
        let mut one = || {
            let mut report = report(
                5,
                10,
                noise,
                |row| factors.get(row).copied().unwrap_or(1.0),
                &mut random,
            );
            sample::of(&mut report.results[3]).times.resolution = Some(5000.0);
            report.results[4].command = alone.to_owned();
            report.host.kernel = kernel.to_owned();
            report
        };
        (0..10).map(|_| one()).collect()
    };
    let old = side([1.0, 1.0, 1.0, 0.1], "row-before", "Linux 6.18.0");
    let new = side([1.1, 0.05, 1.0, 0.2], "row-now", "Linux 6.19.0");
    let options = CompareOptions {
        pairing: Pairing::Turns,
        seed: 7,
        resamples: 500,
        ..CompareOptions::default()
    };
    compare(&old, &new, &options).expect("the reports have rows in common")
}
