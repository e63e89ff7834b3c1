//! The report of `vmbell bench eoi`: a line for each event, a column for each row of the report, and the change from
//! the first column to the last.

use std::collections::BTreeMap;

use crate::table::{Block, Cell, Column, Overflow, Table};
use crate::{Counts, Measured, Ratio, Report, Row, Work};

pub(super) fn blocks(report: &Report, work: &Work) -> Vec<Block> {
    let fact = |label: &str, text: String| (label.to_owned(), text);
    let backends = report.backends.iter();
    let mut facts: Vec<(String, String)> = backends
        .map(|backend| fact("backend", format!("{} ({})", backend.name, backend.why)))
        .collect();
    facts.push(fact("counted", format!("by {}", work.source)));
    facts.push(fact("workload", work.text.clone()));
    let mut blocks = vec![Block::Facts(facts)];
    let events = events(report);
    let operations = operations(report, work);
    blocks.push(table("event", &events, &report.results));
    blocks.push(table(&work.operation, &operations, &report.results));
    let lines = || events.iter().chain(&operations);
    if lines().any(|line| !line.change.is_empty()) {
        let interval = match lines().any(|line| line.has_interval) {
            true => ", with its 95 % confidence interval",
            false => "",
        };
        let each = &work.operation;
        blocks.push(Block::Note(format!(
            "change: per {each}, of the medians{interval}"
        )));
    }
    for row in &report.results {
        let exits_note = row.measured().and_then(|row| row.exits_note.as_deref());
        let reasons = [row.reason(), row.note.as_deref(), exits_note];
        let reasons = reasons.into_iter().flatten();
        blocks.extend(reasons.map(|why| Block::text(format!("{}: {why}", row.command))));
    }
    blocks
}

/// A line of a table: what is counted, its number in each row, and the change from the first row to the last.
struct EventLine {
    name: String,
    numbers: Vec<Option<String>>,
    change: String,
    has_interval: bool,
}

impl EventLine {
    fn new(name: &str, rows: &[Row], number: impl Fn(&Row) -> Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            numbers: rows.iter().map(number).collect(),
            change: String::new(),
            has_interval: false,
        }
    }

    fn changed(mut self, ratio: Option<&Ratio>) -> Self {
        if let Some(ratio) = ratio {
            self.change = change(ratio);
            self.has_interval = !self.change.is_empty() && ratio.interval().is_some();
        }
        self
    }
}

fn table(title: &str, lines: &[EventLine], rows: &[Row]) -> Block {
    let mut table = Table {
        overflow: Overflow::Continue,
        ..Table::new(title, lines.iter().map(|line| line.name.as_str()))
    };
    for (place, row) in rows.iter().enumerate() {
        let cells = lines.iter().map(|line| line.numbers[place].clone());
        table.add(
            Column::numbers(&row.command),
            cells.map(|number| number.map(Cell::from)),
        );
    }
    let changes = lines.iter().map(|line| Some(Cell::from(&line.change)));
    table.add(Column::numbers("change"), changes);
    Block::Table(table)
}

/// The numbers of the last row.
fn last(report: &Report) -> Option<&Measured> {
    report.results.last()?.measured()
}

/// The events, with their counts over all runs. An event has a change if the last row is compared with the first.
fn events(report: &Report) -> Vec<EventLine> {
    let rows = &report.results;
    let line = |name| {
        let count = |row: &Row| of(&row.measured()?.events, name);
        let line = EventLine::new(name, rows, |row| Some(count(row)?.to_string()));
        let ratio = last(report).and_then(|row| row.ratios.get(name));
        let is_compared = last(report).is_some_and(|row| !row.ratios.is_empty());
        let ends = rows
            .first()
            .and_then(count)
            .zip(rows.last().and_then(count));
        match (ratio, ends) {
            (None, Some((0, 1..))) if is_compared => EventLine {
                change: "new".to_owned(),
                ..line
            },
            _ => line.changed(ratio),
        }
    };
    by_frequency(rows).into_iter().map(line).collect()
}

/// What the rows themselves counted, the exits per operation, and the rate of operations.
fn operations(report: &Report, work: &Work) -> Vec<EventLine> {
    let rows = &report.results;
    let own = rows.first().and_then(Row::measured);
    let mut lines: Vec<EventLine> = own
        .into_iter()
        .flat_map(|row| row.counts.iter())
        .map(|(name, _)| {
            let count = |row: &Row| of(&row.measured()?.counts, name);
            EventLine::new(name, rows, |row| Some(count(row)?.to_string()))
        })
        .collect();
    let each = &work.operation;
    let exits = EventLine::new(&format!("exits per {each}"), rows, |row| {
        Some(format!("{:.3}", row.exits()?.total?))
    });
    lines.push(exits.changed(last(report).and_then(|row| row.ratios.get("exits"))));
    lines.push(EventLine::new(&format!("{each}s a second"), rows, |row| {
        Some(format!("{:.0}", 1e9 / row.median()?))
    }));
    lines
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

/// The change in per cent, with a sign and its interval if there is one; empty if nothing changed.
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
#[path = "eoi_test.rs"]
mod tests;
