//! Tests of whole comparisons.

use super::samples::{Noise, report};
use super::*;
use crate::Random;

const QUIET: Noise = Noise {
    of_reports: 0.0,
    of_rows: 0.01,
    of_runs: 0.01,
};

fn reports(count: usize, rows: usize, factor: impl Fn(usize) -> f64, seed: u64) -> Vec<Report> {
    let mut random = Random::new(seed);
    let one = |_| report(rows, 10, QUIET, &factor, &mut random);
    (0..count).map(one).collect()
}

fn turns() -> CompareOptions {
    CompareOptions {
        pairing: Pairing::Turns,
        ..CompareOptions::default()
    }
}

#[test]
fn a_change_is_found_and_what_did_not_change_is_the_same() {
    let old = reports(12, 10, |_| 1.0, 1);
    let new = reports(12, 10, |row| if row == 3 { 1.1 } else { 1.0 }, 2);
    for options in [CompareOptions::default(), turns()] {
        let comparison = compare(&old, &new, &options).unwrap();
        for (index, row) in comparison.rows.iter().enumerate() {
            let expected = if index == 3 {
                Verdict::Slower
            } else {
                Verdict::Same
            };
            assert_eq!(row.verdict, expected, "{row:?}");
        }
        let worse: Vec<&str> = comparison
            .worse_than(0.05)
            .map(|row| row.key.command.as_str())
            .collect();
        assert_eq!(worse, ["row-3"]);
        assert_eq!(comparison.worse_than(0.2).count(), 0);
        assert_eq!(comparison.notes, [""; 0]);
    }
}
