//! Formats every number of the bench's tables once: the terminal and Markdown writers lay out the same
//! cells and differ in nothing else.

use super::columns::Paint;
use super::header::excuse;
use super::model::{Group, PercentilesOf, Ratio, Report, Row, Status};
use super::{Timing, units};

/// The rows of one group.
#[derive(Debug)]
pub(super) struct Table<'r> {
    pub(super) group: Group,
    pub(super) lines: Vec<Line<'r>>,
}

/// One row of a table.
#[derive(Debug)]
pub(super) struct Line<'r> {
    pub(super) name: &'r str,
    pub(super) cells: Cells,
}

/// What follows the name in a row.
#[derive(Debug)]
pub(super) enum Cells {
    Measured(Box<Numbers>),
    /// The row was not measured; the text says why.
    Excuse(String, Paint),
}

/// The cells of a measured row; `None` for a number that the row does not have.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) median: String,
    pub(super) spread: Option<String>,
    /// The 99th percentile, with a star if it is over single operations.
    pub(super) p99: Option<String>,
    pub(super) rate: Option<String>,
    /// The mean, the fastest run, the slowest run and the CPU time.
    pub(super) more: [Option<String>; 4],
    /// Light exits and heavy exits, per operation.
    pub(super) exits: Option<[String; 2]>,
    pub(super) ratio: Option<RatioCells>,
    /// Whether another row is compared with this one.
    pub(super) is_reference: bool,
}

/// A ratio and the ends of its interval, if it has one.
#[derive(Debug)]
pub(super) struct RatioCells {
    pub(super) value: String,
    pub(super) interval: Option<[String; 2]>,
    /// Green or red if the whole interval is on one side of 1.
    pub(super) paint: Paint,
}

impl Table<'_> {
    /// Whether any row of the table has a ratio.
    pub(super) fn has_ratio(&self) -> bool {
        let has = |line: &Line<'_>| matches!(&line.cells, Cells::Measured(n) if n.ratio.is_some());
        self.lines.iter().any(has)
    }
}

/// The groups that have rows, in the order in which they are shown.
pub(super) fn tables(report: &Report) -> Vec<Table<'_>> {
    let of = |group| Table {
        group,
        lines: report
            .group(group)
            .into_iter()
            .map(|row| line(report, row))
            .collect(),
    };
    let groups = [Group::Scenario, Group::Floor, Group::Debug].map(of);
    groups
        .into_iter()
        .filter(|table| !table.lines.is_empty())
        .collect()
}

fn line<'r>(report: &'r Report, row: &'r Row) -> Line<'r> {
    let cells = match (row.median_ns, row.status) {
        (Some(median), _) => Cells::Measured(Box::new(numbers(report, row, median))),
        (None, Status::Failed) => Cells::Excuse(excuse(row), Paint::Red),
        (None, _) => Cells::Excuse(excuse(row), Paint::Yellow),
    };
    Line {
        name: &row.command,
        cells,
    }
}

fn numbers(report: &Report, row: &Row, median: f64) -> Numbers {
    let time = |ns| units::measured(ns, report.timing);
    let cpu = row
        .user_ns
        .zip(row.system_ns)
        .map(|(user, system)| user + system);
    // Operations that are timed one by one wait for each other, so they have a latency and no rate. A
    // number of instructions is not a time and has no rate either.
    let (star, rate) = match (row.percentiles_of, report.timing) {
        (PercentilesOf::Runs, Timing::Instructions) => ("", None),
        (PercentilesOf::Runs, _) => ("", Some(units::rate(median))),
        (PercentilesOf::Operations, _) => ("*", None),
    };
    let is_reference = |other: &Row| other.reference.as_deref() == Some(row.command.as_str());
    Numbers {
        median: time(median),
        spread: row.spread.map(units::percent),
        p99: row
            .percentiles_ns
            .and_then(|percentiles| percentiles.p99)
            .map(|p99| format!("{}{star}", time(p99))),
        rate,
        more: [row.mean_ns, row.min_ns, row.max_ns, cpu].map(|ns| ns.map(time)),
        exits: row
            .exits
            .map(|exits| [exits.light, exits.heavy].map(units::per_op)),
        ratio: row.ratio.as_ref().map(RatioCells::of),
        is_reference: report.results.iter().any(is_reference),
    }
}

impl RatioCells {
    pub(super) fn of(ratio: &Ratio) -> Self {
        Self {
            value: units::ratio(ratio.value),
            interval: ratio.interval().map(|ends| ends.map(units::ratio)),
            paint: match ratio.interval() {
                Some([_, high]) if high < 1.0 => Paint::Green,
                Some([low, _]) if low > 1.0 => Paint::Red,
                _ => Paint::Plain,
            },
        }
    }
}
