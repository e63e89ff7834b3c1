//! Simulates how often a comparison is wrong. The noise is log-normal, and a row varies more between reports than its
//! runs vary within one report.

use super::samples::{Noise, report};
use super::*;
use vmbell_statistics::Random;

const NOISE: Noise = Noise {
    of_reports: 0.02,
    of_rows: 0.03,
    of_runs: 0.03,
};

/// The design of a comparison: every row takes the same time on both sides, except the first, which takes `change`
/// times as long on the new side.
#[derive(Clone, Copy)]
struct Design {
    pairing: Pairing,
    reports: usize,
    rows: usize,
    change: f64,
    resamples: usize,
}

impl Design {
    fn simulate(self, random: &mut Random) -> Comparison {
        let mut side = |change: f64| -> Vec<Report> {
            let factor = |row: usize| if row == 0 { change } else { 1.0 };
            let one = |_| report(self.rows, 5, NOISE, factor, random);
            (0..self.reports).map(one).collect()
        };
        let (old, new) = (side(1.0), side(self.change));
        let options = CompareOptions {
            pairing: self.pairing,
            resamples: self.resamples,
            seed: random.next(),
            ..CompareOptions::default()
        };
        compare(&old, &new, &options).unwrap()
    }

    /// Counts in how many of `times` comparisons `holds` is true.
    fn count(self, times: usize, holds: impl Fn(&Comparison) -> bool) -> usize {
        let mut random = Random::new(2026);
        (0..times)
            .filter(|_| holds(&self.simulate(&mut random)))
            .count()
    }
}

fn any_alarm(comparison: &Comparison) -> bool {
    let is_alarm = |row: &ComparedRow| matches!(row.verdict, Verdict::Faster | Verdict::Slower);
    comparison.rows.iter().any(is_alarm)
}

/// With a single resample the interval has no width, so the verdicts depend on the p-values alone. With an interval
/// there are fewer alarms.
const NO_INTERVAL: usize = 1;

/// If 5 % of 300 comparisons had an alarm, only 1 in 200 simulations would have more alarms than this.
const MOST_OF_300: usize = 25;

#[test]
fn turns_with_no_change_raise_an_alarm_in_at_most_one_comparison_of_twenty() {
    let design = Design {
        pairing: Pairing::Turns,
        reports: 12,
        rows: 20,
        change: 1.0,
        resamples: NO_INTERVAL,
    };
    let alarms = design.count(300, any_alarm);
    assert!((1..=MOST_OF_300).contains(&alarms), "{alarms} of 300");
}

#[test]
fn reports_apart_with_no_change_raise_an_alarm_in_at_most_one_comparison_of_twenty() {
    let design = Design {
        pairing: Pairing::Apart,
        reports: 6,
        rows: 10,
        change: 1.0,
        resamples: NO_INTERVAL,
    };
    let alarms = design.count(300, any_alarm);
    assert!((1..=MOST_OF_300).contains(&alarms), "{alarms} of 300");
}

#[test]
fn so_few_turns_that_no_row_can_be_significant_raise_no_alarm() {
    let design = Design {
        pairing: Pairing::Turns,
        reports: 5,
        rows: 20,
        change: 3.0,
        resamples: NO_INTERVAL,
    };
    assert_eq!(design.count(30, any_alarm), 0);
}

#[test]
fn a_change_of_a_tenth_is_found_in_turns_in_nineteen_comparisons_of_twenty() {
    let design = Design {
        pairing: Pairing::Turns,
        reports: 16,
        rows: 20,
        change: 1.1,
        resamples: 100,
    };
    let is_found = |comparison: &Comparison| comparison.rows[0].verdict == Verdict::Slower;
    let found = design.count(40, is_found);
    assert!(found >= 38, "{found} of 40");
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_claims() {
    for (pairing, reports) in [
        (Pairing::Apart, 3),
        (Pairing::Apart, 8),
        (Pairing::Turns, 8),
    ] {
        let design = Design {
            pairing,
            reports,
            rows: 20,
            change: 1.0,
            resamples: 200,
        };
        let mut random = Random::new(5);
        let rows = (0..20).flat_map(|_| design.simulate(&mut random).rows);
        let holds = |row: &ComparedRow| {
            row.interval
                .is_some_and(|[low, high]| low < 1.0 && 1.0 < high)
        };
        let held = rows.filter(holds).count();
        assert!(held >= 380, "{held} of 400 with {reports} {pairing:?}");
    }
}
