//! The report on a terminal: a header that can be pasted elsewhere, a table for each group, and the
//! ratios that answer the usual questions.

use std::fmt::Write;

use super::cells::{self, Cells, RatioCells, Table, tables};
use super::columns::{Cell, CellRow, Paint, layout};
use super::events::events;
use super::header::{below_one, footnotes, header, median_title};
use super::model::{Highlight, Report};
use super::perf_stat::perf_stat;
use super::{Form, Group};

/// Options of the terminal form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether to use colours.
    pub color: bool,
    /// Whether to show the mean, the extremes and the CPU time as well.
    pub verbose: bool,
}

/// Writes `report` for a terminal, in the form that its [`Counting`](super::Counting) asks for.
pub fn terminal(report: &Report, look: Look) -> String {
    match &report.counting {
        None => bench(report, look),
        Some(counting) => match counting.form {
            Form::Events => events(report, counting),
            Form::PerfStat => perf_stat(report, counting),
        },
    }
}

fn bench(report: &Report, look: Look) -> String {
    let mut text = String::new();
    let labels: Vec<(&str, String)> = header(report);
    let width = labels
        .iter()
        .map(|(label, _)| label.len())
        .max()
        .unwrap_or_default();
    for (label, line) in labels {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{}  {line}",
            Paint::Dim.apply(&format!("{label:width$}"), look.color)
        );
    }
    text.push('\n');
    text.push_str(&lines(report, look));
    for note in footnotes(report) {
        let _ = writeln!(text, "{}", Paint::Dim.apply(note, look.color));
    }
    if !report.highlights.is_empty() {
        let title = format!(
            "ratios that matter (new/old, below 1 = {})",
            below_one(report)
        );
        let _ = writeln!(text, "\n{}", Paint::Bold.apply(&title, look.color));
        text.push_str(&highlights(&report.highlights, look));
    }
    text
}

/// The highlights: the ratios in aligned columns on the left, then what each compares.
fn highlights(highlights: &[Highlight], look: Look) -> String {
    let cells = |highlight: &Highlight| {
        let ratio = RatioCells::of(&highlight.ratio);
        let bounds = bounds(&ratio);
        vec![
            Cell::default(),
            Cell::new(ratio.value, Paint::Bold),
            Cell::from(bounds),
        ]
    };
    let numbers: Vec<CellRow> = highlights.iter().map(cells).collect();
    layout(&numbers, look.color)
        .lines()
        .zip(highlights)
        .map(|(numbers, Highlight { new, text, ratio })| {
            format!("{numbers}  {text} ({new} / {})\n", ratio.reference)
        })
        .collect()
}

/// Lays out all groups together, so that their columns are aligned with each other.
fn lines(report: &Report, look: Look) -> String {
    let mut lines: Vec<CellRow> = Vec::new();
    let mut titles = Vec::new();
    for table in tables(report) {
        titles.push(lines.len());
        lines.push(title(report, &table, look));
        let group = table.group;
        lines.extend(table.lines.into_iter().map(|line| cells(line, group, look)));
    }
    let mut text = String::new();
    for (index, line) in layout(&lines, look.color).lines().enumerate() {
        if index > 0 && titles.contains(&index) {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn title(report: &Report, table: &Table<'_>, look: Look) -> CellRow {
    let mut titles = vec![
        table.group.name(),
        median_title(report),
        "± spread",
        "p99",
        "rate",
    ];
    if look.verbose {
        titles.extend(["mean", "min", "max", "CPU/op"]);
    }
    let ratio = format!("to {} [95 % CI]", report.ratios_to);
    match table.group {
        Group::Floor if table.has_ratio() => titles.extend(["", "", &ratio]),
        Group::Floor => titles.extend(["", "", ""]),
        Group::Scenario | Group::Debug => titles.extend(["light/op", "heavy/op", &ratio]),
    }
    titles
        .into_iter()
        .map(|title| Cell::new(title, Paint::Bold))
        .collect()
}

fn cells(line: cells::Line<'_>, group: Group, look: Look) -> CellRow {
    let name = Cell::from(line.name);
    let numbers = match line.cells {
        Cells::Measured(numbers) => numbers,
        Cells::Excuse(excuse, paint) => return vec![name, Cell::new(excuse, paint)],
    };
    let or_dash = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "-".to_owned()));
    let mut cells = vec![name, Cell::new(numbers.median, Paint::Bold)];
    cells.extend([numbers.spread, numbers.p99, numbers.rate].map(or_dash));
    if look.verbose {
        cells.extend(numbers.more.map(or_dash));
    }
    cells.extend(numbers.exits.unwrap_or_default().map(Cell::from));
    cells.push(match (numbers.ratio, group) {
        (Some(ratio), _) => Cell::new(format!("{} {}", ratio.value, bounds(&ratio)), ratio.paint),
        (None, _) if numbers.is_reference => Cell::from("1"),
        (None, Group::Floor) => Cell::default(),
        (None, Group::Scenario | Group::Debug) => Cell::from("-"),
    });
    cells
}

fn bounds(ratio: &RatioCells) -> String {
    match &ratio.interval {
        Some([low, high]) => format!("[{low}, {high}]"),
        None => "[-]".to_owned(),
    }
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
