//! The report as a table of events, which is what `vmbell bench eoi` prints: a line for each event, a column
//! for each row of the report, and the change from the first column to the last.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Counting, Counts, Ratio, Report, Row};

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
        table.event(name);
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
    let each = &counting.operation;
    let title = format!("exits per {each}");
    table.line(&title, &ratio.map_or_else(String::new, change), |row| {
        Some(format!("{:.3}", row.exits_per_op?))
    });
    table.line(&format!("{each}s a second"), "", |row| {
        Some(format!("{:.0}", 1e9 / row.median_ns?))
    });
    for row in &report.results {
        if let Some(why) = row.reason.as_ref().or(row.note.as_ref()) {
            let _ = write!(table.text, "\n{}: {why}\n", row.command);
        }
    }
    if table.text.contains(" %") {
        let _ = write!(
            table.text,
            "\nchange: per {each}, of the medians{}\n",
            if table.text.contains('[') {
                ", with its 95 % confidence interval"
            } else {
                ""
            }
        );
    }
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

    /// Whether the last row is compared with the first.
    fn compares(&self) -> bool {
        self.rows.last().is_some_and(|row| !row.ratios.is_empty())
    }

    /// The line of an event; it has a change if the last row is compared with the first.
    fn event(&mut self, name: &str) {
        let rows = self.rows;
        let count = |row: &Row| of(&row.events, name);
        let ends = rows.first().zip(rows.last());
        let ends = ends.and_then(|(before, after)| count(before).zip(count(after)));
        let change = match rows.last().and_then(|row| row.ratios.get(name)) {
            Some(ratio) => change(ratio),
            None if self.compares()
                && ends.is_some_and(|(before, after)| before == 0 && after > 0) =>
            {
                "new".to_owned()
            }
            None => String::new(),
        };
        self.line(name, &change, |row| Some(count(row)?.to_string()));
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

/// The change in per cent with a sign and its interval, if it has one; empty if nothing changed.
fn change(ratio: &Ratio) -> String {
    let per_cent = |ratio: f64| (ratio - 1.0) * 100.0;
    let value = format!("{:+.1} %", per_cent(ratio.value));
    match ratio.interval().map(|ends| ends.map(per_cent)) {
        _ if value == "+0.0 %" || value == "-0.0 %" => String::new(),
        Some([low, high]) => format!("{value} [{low:+.1}, {high:+.1}]"),
        None => value,
    }
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
