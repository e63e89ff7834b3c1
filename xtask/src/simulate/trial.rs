//! What the simulated comparisons of one kind found.

use std::collections::BTreeMap;

use super::recording::Name;
use vmbell_report::compare::{ComparedRow, Comparison, Verdict};

/// The threshold of `--fail-above` that is counted.
const THRESHOLD: f64 = 0.05;

/// A change that a comparison is to find.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The row that is changed.
    pub(super) row: Name,
    /// What its times are multiplied with.
    pub(super) factor: f64,
}

/// The comparisons of one kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    comparisons: usize,
    alarms: usize,
    failures: usize,
    /// For each row, how often it was changed and how often the change was found.
    changed: BTreeMap<Name, (usize, usize)>,
}

impl Tally {
    /// Counts what a comparison found.
    pub(super) fn add(&mut self, comparison: &Comparison, change: Option<Change>) {
        let is_changed = |row: &ComparedRow| {
            change
                .as_ref()
                .is_some_and(|change| change.row == name(row))
        };
        let is_alarm = |row: &&ComparedRow| {
            matches!(row.verdict, Verdict::Faster | Verdict::Slower) && !is_changed(row)
        };
        self.comparisons += 1;
        self.alarms += usize::from(comparison.rows.iter().any(|row| is_alarm(&row)));
        let mut worse = comparison.worse_than(THRESHOLD);
        self.failures += usize::from(worse.any(|row| !is_changed(row)));
        if let Some(change) = &change {
            let found = comparison
                .rows
                .iter()
                .any(|row| is_changed(row) && row.verdict == Verdict::Slower);
            let count = self.changed.entry(change.row.clone()).or_default();
            count.0 += 1;
            count.1 += usize::from(found);
        }
    }

    /// How many comparisons had a false alarm.
    pub(super) fn alarms(&self) -> usize {
        self.alarms
    }

    /// The line of the table.
    pub(super) fn line(&self, turns: usize, factor: Option<f64>) -> String {
        let changed: usize = self.changed.values().map(|count| count.0).sum();
        let found: usize = self.changed.values().map(|count| count.1).sum();
        let found = match factor {
            Some(_) => percent(found, changed),
            None => "-".to_owned(),
        };
        format!(
            "| {turns} | {} | {} | {} | {found} |",
            text(factor),
            percent(self.alarms, self.comparisons),
            percent(self.failures, self.comparisons),
        )
    }

    /// The rows whose change was found in fewer than 95 % of their comparisons, a line each.
    pub(super) fn missed(&self, turns: usize, factor: Option<f64>) -> Vec<String> {
        let rarely = |count: &(usize, usize)| count.1 * 100 < count.0 * 95;
        let line = |((row, backend), count): (&Name, &(usize, usize))| {
            let share = percent(count.1, count.0);
            format!(
                "  {turns} turns, {}: {row} ({backend}) {share}",
                text(factor)
            )
        };
        let missed = self.changed.iter().filter(|(_, count)| rarely(count));
        missed.map(line).collect()
    }
}

fn name(row: &ComparedRow) -> Name {
    (row.key.command.clone(), row.key.backend.clone())
}

fn text(factor: Option<f64>) -> String {
    factor.map_or_else(
        || "none".to_owned(),
        |factor| format!("{:+.0} %", (factor - 1.0) * 100.0),
    )
}

/// The share, and the ends of its 95 % interval (Wilson).
fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        return "-".to_owned();
    }
    let (n, p, z) = (of as f64, part as f64 / of as f64, 1.96_f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    format!(
        "{:.1} % ({:.1} to {:.1})",
        p * 100.0,
        (middle - half).max(0.0) * 100.0,
        (middle + half) * 100.0
    )
}
