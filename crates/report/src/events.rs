//! The report as a table of events, which is what `vmbell bench eoi` prints: a line for each event, a column
//! for each row of the report, and the change from the first column to the last.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Counts, Measured, Ratio, Report, Row, Work};

/// Writes `report` for the terminal.
pub(super) fn events(report: &Report, work: &Work) -> String {
    let names = by_frequency(&report.results);
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut table = EventTable {
        text: String::new(),
        width: width.max(20),
        rows: &report.results,
    };
    // Writing to a String cannot fail, here and below.
    for backend in &report.backends {
        let _ = writeln!(table.text, "backend   {} ({})", backend.name, backend.why);
    }
    let _ = writeln!(table.text, "counted   by {}", work.source);
    let _ = writeln!(table.text, "workload  {}\n", work.text);
    table.line("event", "change", |row| Some(row.command.clone()));
    for name in names {
        table.event(name);
    }
    table.line("", "", |_| Some(String::new()));
    let own = table.rows.first().and_then(Row::measured);
    for (name, _) in own.into_iter().flat_map(|row| row.counts.iter()) {
        let count = |row: &Row| of(&row.measured()?.counts, name);
        table.line(name, "", |row| Some(count(row)?.to_string()));
    }
    let ratio = table.last().and_then(|row| row.ratios.get("exits"));
    let each = &work.operation;
    let title = format!("exits per {each}");
    table.line(&title, &ratio.map_or_else(String::new, change), |row| {
        Some(format!("{:.3}", row.exits()?.total?))
    });
    table.line(&format!("{each}s a second"), "", |row| {
        Some(format!("{:.0}", 1e9 / row.median()?))
    });
    for row in &report.results {
        let exits_note = row.measured().and_then(|row| row.exits_note.as_deref());
        for why in [row.reason(), row.note.as_deref(), exits_note]
            .into_iter()
            .flatten()
        {
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

    /// The numbers of the last row.
    fn last(&self) -> Option<&Measured> {
        self.rows.last()?.measured()
    }

    /// Whether the last row is compared with the first.
    fn compares(&self) -> bool {
        self.last().is_some_and(|row| !row.ratios.is_empty())
    }

    /// The line of an event; it has a change if the last row is compared with the first.
    fn event(&mut self, name: &str) {
        let rows = self.rows;
        let count = |row: &Row| of(&row.measured()?.events, name);
        let ends = rows.first().zip(rows.last());
        let ends = ends.and_then(|(before, after)| count(before).zip(count(after)));
        let change = match self.last().and_then(|row| row.ratios.get(name)) {
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
    let measured = rows.iter().filter_map(Row::measured);
    for (name, runs) in measured.flat_map(|row| row.events.iter()) {
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
