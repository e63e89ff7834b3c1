//! The report as a table of events, which is what `vmbell stat` prints: a line for each event, a column
//! for each row of the report, and the change from the first column to the last.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Counting, Counts, Report, Row};

/// Writes `report` for the terminal.
pub(super) fn events(report: &Report, counting: &Counting) -> String {
    let names = by_frequency(&report.results);
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut table = EventTable {
        text: String::new(),
        width: width.max(20),
        rows: &report.results,
    };
    let backend = &report.backend;
    // Writing to a String cannot fail.
    let _ = writeln!(table.text, "backend   {} ({})", backend.name, backend.why);
    let _ = writeln!(table.text, "counted   by {}", counting.source);
    let _ = writeln!(table.text, "workload  {}\n", counting.text);
    table.line("event", "change", |row| Some(row.command.clone()));
    for name in names {
        table.counts(name, |row| &row.events);
    }
    table.line("", "", |_| Some(String::new()));
    let own = report.results.first().map(|row| &row.counts);
    for (name, _) in own.into_iter().flat_map(Counts::iter) {
        table.line(name, "", |row| Some(of(&row.counts, name)?.to_string()));
    }
    let ratio = report
        .results
        .last()
        .and_then(|row| row.ratios.get("exits"));
    let change = ratio.map_or_else(String::new, |ratio| per_cent(ratio.value));
    let title = format!("exits per {}", counting.operation);
    table.line(&title, &change, |row| {
        Some(format!("{:.3}", row.exits_per_op?))
    });
    table.line("seconds", "", |row| {
        let seconds: f64 = row.seconds().iter().sum();
        Some(format!("{seconds:.2}"))
    });
    table.text
}

struct EventTable<'r> {
    text: String,
    width: usize,
    rows: &'r [Row],
}

impl EventTable<'_> {
    fn line(&mut self, name: &str, change: &str, cell: impl Fn(&Row) -> Option<String>) {
        let cell = |row| cell(row).unwrap_or_else(|| "-".to_owned());
        let cells: String = self
            .rows
            .iter()
            .map(|row| format!("  {:>12}", cell(row)))
            .collect();
        let line = format!("{name:width$}{cells}  {change:>9}", width = self.width);
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    fn counts(&mut self, name: &str, counts: impl Fn(&Row) -> &Counts) {
        let count = |row: &Row| of(counts(row), name);
        let ends = self.rows.first().zip(self.rows.last());
        let ends = ends.and_then(|(first, last)| count(first).zip(count(last)));
        self.line(name, &ends.map_or_else(String::new, change), |row| {
            Some(count(row)?.to_string())
        });
    }
}

/// How often `name` happened in all runs together.
fn of(counts: &Counts, name: &str) -> Option<u64> {
    counts.get(name).map(|runs| runs.iter().sum())
}

/// All events, the most frequent first.
fn by_frequency(rows: &[Row]) -> Vec<&str> {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, runs) in rows.iter().flat_map(|row| row.events.iter()) {
        let most = most.entry(name).or_default();
        *most = (*most).max(runs.iter().sum());
    }
    let mut names: Vec<(&str, u64)> = most.into_iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    names.into_iter().map(|(name, _)| name).collect()
}

/// The change in per cent with a sign; empty if nothing changed, `new` if there was nothing before.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn change((before, after): (u64, u64)) -> String {
    match (before, after) {
        _ if before == after => String::new(),
        (0, _) => "new".to_owned(),
        _ => per_cent(after as f64 / before as f64),
    }
}

fn per_cent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
