//! The report on a terminal: a header that can be pasted, a table for each group, and the ratios
//! that people ask for first.

use std::fmt::Write;

use super::columns::{Cell, Line, Paint, layout};
use super::events::events;
use super::header::{below_one, excuse, footnotes, header, median_title};
use super::model::{Highlight, PercentilesOf, Ratio, Report, Row, Unit};
use super::perf_stat::perf_stat;
use super::units;
use super::{Form, Group, Status};

/// How it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// With colours.
    pub color: bool,
    /// With mean, extremes and CPU time as well.
    pub verbose: bool,
}

/// Writes `report` for people, in the form that it asks for.
pub fn terminal(report: &Report, look: Look) -> String {
    match &report.work {
        None => bench(report, look),
        Some(work) => match work.form {
            Form::Events => events(report, work),
            Form::PerfStat => perf_stat(report, work),
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
    text.push_str(&tables(report, look));
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

/// Numbers in columns, and the words behind them to the left.
fn highlights(highlights: &[Highlight], look: Look) -> String {
    let numbers: Vec<Line> = highlights
        .iter()
        .map(|highlight| {
            vec![
                Cell::default(),
                Cell::new(units::ratio(highlight.ratio.value), Paint::Bold),
                Cell::from(bounds(&highlight.ratio)),
            ]
        })
        .collect();
    layout(&numbers, look.color)
        .lines()
        .zip(highlights)
        .map(|(numbers, Highlight { new, text, ratio })| {
            format!("{numbers}  {text} ({new} / {})\n", ratio.reference)
        })
        .collect()
}

/// All groups in one layout, so that their columns line up.
fn tables(report: &Report, look: Look) -> String {
    let mut lines: Vec<Line> = Vec::new();
    let mut titles = Vec::new();
    for group in [Group::Scenario, Group::Floor, Group::Debug] {
        let rows = report.group(group);
        if rows.is_empty() {
            continue;
        }
        titles.push(lines.len());
        lines.push(title(report, group, look));
        lines.extend(rows.iter().map(|row| line(report, row, look)));
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

fn title(report: &Report, group: Group, look: Look) -> Line {
    let mut titles = vec![
        group.name(),
        median_title(report),
        "± spread",
        "p99",
        "rate",
    ];
    if look.verbose {
        titles.extend(["mean", "min", "max", "CPU/op"]);
    }
    let ratio = format!("to {} [95 % CI]", report.ratios_to);
    let has_ratio = report.group(group).iter().any(|row| row.ratio.is_some());
    match group {
        Group::Floor if has_ratio => titles.extend(["", "", &ratio]),
        Group::Floor => titles.extend(["", "", ""]),
        Group::Scenario | Group::Debug => titles.extend(["light/op", "heavy/op", &ratio]),
    }
    titles
        .into_iter()
        .map(|title| Cell::new(title, Paint::Bold))
        .collect()
}

fn line(report: &Report, row: &Row, look: Look) -> Line {
    let name = Cell::from(row.command.clone());
    let Some(median) = row.median_ns else {
        let paint = if row.status == Status::Failed {
            Paint::Red
        } else {
            Paint::Yellow
        };
        return vec![name, Cell::new(excuse(row), paint)];
    };
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| units::measured(ns, report.unit));
    let mut cells = vec![
        name,
        Cell::new(units::measured(median, report.unit), Paint::Bold),
        row.spread.map_or("-".to_owned(), units::percent).into(),
        p99(row, report.unit).into(),
        rate(row, median, report.unit).into(),
    ];
    if look.verbose {
        let cpu = row
            .user_ns
            .zip(row.system_ns)
            .map(|(user, system)| user + system);
        cells.extend([row.mean_ns, row.min_ns, row.max_ns, cpu].map(|ns| Cell::from(time(ns))));
    }
    match &row.exits {
        Some(exits) => {
            cells.push(units::per_op(exits.light).into());
            cells.push(units::per_op(exits.heavy).into());
        }
        None => cells.extend([Cell::default(), Cell::default()]),
    }
    cells.push(ratio(report, row));
    cells
}

/// Operations timed one by one wait for each other: they have a latency and no rate. Instructions
/// have none either.
pub(super) fn rate(row: &Row, median: f64, unit: Unit) -> String {
    match (row.percentiles_of, unit) {
        (PercentilesOf::Runs, Unit::Time) => units::rate(median),
        _ => "-".to_owned(),
    }
}

fn p99(row: &Row, unit: Unit) -> String {
    let mark = match row.percentiles_of {
        PercentilesOf::Operations => "*",
        PercentilesOf::Runs => "",
    };
    row.percentiles_ns.map_or("-".to_owned(), |percentiles| {
        format!("{}{mark}", units::measured(percentiles.p99, unit))
    })
}

/// The ratio, green or red if the whole interval is on one side of 1. A row that others are
/// compared with says so.
fn ratio(report: &Report, row: &Row) -> Cell {
    if let Some(ratio) = &row.ratio {
        let paint = if ratio.ci_high < 1.0 {
            Paint::Green
        } else if ratio.ci_low > 1.0 {
            Paint::Red
        } else {
            Paint::Plain
        };
        return Cell::new(interval(ratio), paint);
    }
    let is_reference = report
        .results
        .iter()
        .any(|other| other.reference.as_deref() == Some(row.command.as_str()));
    match (is_reference, row.group) {
        (true, _) => Cell::from("1"),
        (false, Group::Floor) => Cell::default(),
        (false, Group::Scenario | Group::Debug) => Cell::from("-"),
    }
}

fn interval(ratio: &Ratio) -> String {
    format!("{} {}", units::ratio(ratio.value), bounds(ratio))
}

fn bounds(ratio: &Ratio) -> String {
    format!(
        "[{}, {}]",
        units::ratio(ratio.ci_low),
        units::ratio(ratio.ci_high)
    )
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
