//! The numbers of a measured row as cells, which are the same in all tables.

use std::collections::{HashMap, HashSet};

use super::bar::BarScale;
use super::header::median_title;
use crate::table::{Cell, Column, Paint, Table};
use crate::{Group, PercentilesOf, Ratio, Report, Row, TimeUnit, Timing, time_unit, units};

/// A change that may be no change: its interval contains 1.
pub(crate) const UNCLEAR: &str = "unclear";

/// A number of a measured row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Median,
    Spread,
    /// The 99th percentile; a star says that it is over single operations.
    P99,
    Rate,
    Mean,
    Min,
    Max,
    Cpu,
    Light,
    Heavy,
    Memory,
    KernelMemory,
    Ratio,
    Interval,
    /// The ratio in words: `13x cheaper`.
    Change,
    /// The ratio in words, without the word that is in the title.
    Cheaper,
    Bar,
}

/// What the cells of a report's rows depend on, apart from the rows.
#[derive(Debug)]
pub(crate) struct Numbers<'r> {
    pub(crate) report: &'r Report,
    pub(crate) unit: Option<TimeUnit>,
    scale: Option<BarScale>,
    /// The rows that others are compared with, as backends and names.
    references: HashSet<(&'r str, &'r str)>,
}

impl<'r> Numbers<'r> {
    /// Makes the numbers of a report, with times in this unit or in the unit that fits each.
    pub(crate) fn of(report: &'r Report, unit: Option<TimeUnit>) -> Self {
        let rows = report.results.iter();
        let reference = |row: &'r Row| Some((row.reference.as_deref()?, row.backend.as_str()));
        Self {
            report,
            unit,
            scale: BarScale::of(report),
            references: rows.filter_map(reference).collect(),
        }
    }

    /// The column for this number.
    pub(crate) fn column(&self, number: Number) -> Column {
        let (title, rank) = match number {
            Number::Median => (median_title(self.report), 0),
            Number::Ratio => ("ratio", 1),
            Number::Change => ("compared", 1),
            Number::Cheaper => ("cheaper", 1),
            Number::Memory => ("memory", 2),
            Number::KernelMemory => ("kernel memory", 3),
            Number::Spread => ("± spread", 4),
            Number::Heavy => ("heavy/op", 5),
            Number::Light => ("light/op", 6),
            Number::P99 => ("p99", 7),
            Number::Interval => ("95 % CI", 8),
            Number::Bar => {
                let title = self.scale.map(|scale| scale.title(self.report, self.unit));
                return Column::words(title.unwrap_or_default()).rank(9);
            }
            Number::Rate => ("rate", 10),
            Number::Max => ("max", 11),
            Number::Min => ("min", 12),
            Number::Cpu => ("CPU/op", 13),
            Number::Mean => ("mean", 14),
        };
        Column::numbers(title).rank(rank)
    }

    /// The number of a row as a cell; `None` if the row has none.
    pub(crate) fn cell(&self, number: Number, row: &Row) -> Option<Cell> {
        let measured = row.measured()?;
        let times = &measured.times;
        let time = |ns| Cell::from(time_unit::measured(ns, self.report, self.unit));
        let exits = || {
            let exits = measured.exits?;
            exits.userspace.map(|_| exits)
        };
        match number {
            Number::Median => {
                let median = median(self.report, row, self.unit)?;
                Some(Cell::new(median, Paint::Bold))
            }
            Number::Spread => {
                let spread = times.spread.filter(|_| times.bound().is_none());
                spread.map(|spread| Cell::from(units::percent(spread)))
            }
            Number::P99 => Some(Cell {
                mark: match times.percentiles_of {
                    PercentilesOf::Runs => "",
                    PercentilesOf::Operations => "*",
                },
                ..time(times.percentiles?.p99?)
            }),
            // Operations that are timed one by one wait for each other, so they have a latency and no rate. A number of
            // instructions is not a time and has no rate either.
            Number::Rate => (times.percentiles_of == PercentilesOf::Runs
                && self.report.timing != Timing::Instructions
                && times.bound().is_none())
            .then(|| Cell::from(units::rate(times.median))),
            Number::Mean => Some(time(times.mean)),
            Number::Min => Some(time(times.min)),
            Number::Max => Some(time(times.max)),
            Number::Cpu => measured.cpu().map(time),
            Number::Light => {
                let light = exits()?.light().map(units::per_op);
                Some(Cell::from(light.unwrap_or_else(|| "-".to_owned())))
            }
            Number::Heavy => exits()?
                .userspace
                .map(|heavy| Cell::from(units::per_op(heavy))),
            Number::Memory => measured.memory.map(|bytes| Cell::from(units::bytes(bytes))),
            Number::KernelMemory => {
                let memory = measured.kernel_memory;
                memory.map(|bytes| Cell::from(units::bytes(bytes)))
            }
            Number::Bar => {
                let bar = self.scale?.bar(times.median);
                Some(Cell::from(bar.trim_end()))
            }
            Number::Ratio | Number::Interval | Number::Change | Number::Cheaper => {
                self.compared(number, row, measured.ratio.as_ref())
            }
        }
    }

    /// The comparison of a row with a different row, as a cell.
    fn compared(&self, number: Number, row: &Row, ratio: Option<&Ratio>) -> Option<Cell> {
        let is_reference = || {
            let row = (row.command.as_str(), row.backend.as_str());
            self.references.contains(&row)
        };
        match (number, ratio) {
            (Number::Ratio, Some(ratio)) => Some(Cell::new(value(ratio), paint(ratio))),
            (Number::Ratio, None) => is_reference().then(|| Cell::from("1")),
            (Number::Interval, Some(ratio)) => interval(ratio).map(Cell::from),
            (Number::Change, Some(ratio)) => {
                Some(Cell::new(change(ratio, self.report.timing), paint(ratio)))
            }
            (_, Some(ratio)) => {
                let change = change(ratio, self.report.timing);
                let change = change.strip_suffix(" cheaper").unwrap_or(&change);
                Some(Cell::new(change, paint(ratio)))
            }
            (_, None) => Some(Cell::default()),
        }
    }
}

/// The median of a row, with `<` before it if it is a bound.
pub(crate) fn median(report: &Report, row: &Row, unit: Option<TimeUnit>) -> Option<String> {
    let text = |ns| time_unit::measured(ns, report, unit);
    Some(match row.bound() {
        Some(bound) => format!("<{}", text(bound)),
        None => text(row.median()?),
    })
}

/// The ratio as a number.
pub(crate) fn value(ratio: &Ratio) -> String {
    let bound = if ratio.is_bound { "<" } else { "" };
    format!("{bound}{}", units::ratio(ratio.value))
}

/// The ratio in words; `unclear` if its interval contains 1.
pub(crate) fn change(ratio: &Ratio, timing: Timing) -> String {
    match (ratio.is_bound, ratio.is_unclear()) {
        (true, _) => format!(">{}", units::change(ratio.value, timing)),
        (false, true) => UNCLEAR.to_owned(),
        (false, false) => units::change(ratio.value, timing),
    }
}

/// The ends of the ratio's interval, if it has one.
pub(crate) fn interval(ratio: &Ratio) -> Option<String> {
    let [low, high] = ratio.interval().filter(|_| !ratio.is_bound)?;
    Some(format!("[{}, {}]", units::ratio(low), units::ratio(high)))
}

/// Green or red if the whole interval is on one side of 1.
pub(crate) fn paint(ratio: &Ratio) -> Paint {
    match ratio.interval().filter(|_| !ratio.is_bound) {
        Some([_, high]) if high < 1.0 => Paint::Green,
        Some([low, _]) if low > 1.0 => Paint::Red,
        _ => Paint::Plain,
    }
}

/// The measured rows of a group, with rows of the same name in one line.
#[derive(Debug)]
pub(crate) struct Lines<'r> {
    pub(crate) group: Group,
    /// The backends whose rows are next to each other; only one for floors, whose names are unique.
    pub(crate) backends: Vec<&'r str>,
    pub(crate) names: Vec<&'r str>,
    /// For each name, its row on each backend.
    pub(crate) rows: Vec<Vec<Option<&'r Row>>>,
}

impl<'r> Lines<'r> {
    /// The groups of a report that have numbers, in display order, without the backends that are not shown.
    pub(crate) fn of(report: &'r Report, is_shown: impl Fn(&str) -> bool) -> Vec<Self> {
        let groups = [Group::Scenario, Group::Floor, Group::Debug].into_iter();
        groups
            .map(|group| Self::of_group(report, group, &is_shown))
            .filter(|lines| !lines.names.is_empty())
            .collect()
    }

    fn of_group(report: &'r Report, group: Group, is_shown: &impl Fn(&str) -> bool) -> Self {
        let rows = report.group(group).into_iter();
        let rows = rows.filter(|row| group == Group::Floor || is_shown(&row.backend));
        let mut lines = Self {
            group,
            backends: Vec::new(),
            names: Vec::new(),
            rows: Vec::new(),
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        for row in rows.filter(|row| row.is_ok()) {
            let backend = match group {
                Group::Floor => "",
                Group::Scenario | Group::Debug => row.backend.as_str(),
            };
            let backends = &mut lines.backends;
            let column = backends.iter().position(|other| *other == backend);
            let column = column.unwrap_or_else(|| {
                backends.push(backend);
                backends.len() - 1
            });
            let at = *places.entry(&row.command).or_insert_with(|| {
                lines.names.push(&row.command);
                lines.rows.push(Vec::new());
                lines.names.len() - 1
            });
            let of_name = &mut lines.rows[at];
            of_name.resize(of_name.len().max(column + 1), None);
            of_name[column] = Some(row);
        }
        lines
    }

    /// A table with these numbers for each backend.
    pub(crate) fn table(&self, of: &Numbers<'r>, numbers: &[Number]) -> Table {
        let mut table = Table::new(self.group.name(), self.names.iter().copied());
        for (place, backend) in self.backends.iter().enumerate() {
            // A footnote explains the mark.
            let mark = match of.report.emulates_kernel_mode(backend) {
                true => "†",
                false => "",
            };
            let group = (self.backends.len() > 1).then(|| format!("{backend}{mark}"));
            for number in numbers {
                let cells = self
                    .rows
                    .iter()
                    .map(|row| match row.get(place).copied().flatten() {
                        Some(row) => of.cell(*number, row),
                        None if *number == Number::Median => None,
                        None => Some(Cell::default()),
                    });
                table.add(of.column(*number).in_group(group.clone()), cells);
            }
        }
        table
    }
}
