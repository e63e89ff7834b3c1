//! The numbers of a section as a table: a line for each path, and the columns of the page beside each other.

use maud::{Markup, html};

use super::column::{Column, Line};
use super::samples;
use crate::cells::{Numbers, RatioCells};
use crate::header::median_title;
use crate::{Report, Row, units};

/// The numbers that a column of the page can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Median,
    Spread,
    P99,
    Rate,
    Light,
    Heavy,
    Memory,
    KernelMemory,
    Ratio,
    /// The ratio to the same row of the first report.
    Base,
}

const CELLS: [Cell; 10] = [
    Cell::Median,
    Cell::Spread,
    Cell::P99,
    Cell::Rate,
    Cell::Light,
    Cell::Heavy,
    Cell::Memory,
    Cell::KernelMemory,
    Cell::Ratio,
    Cell::Base,
];

/// The table of `lines`.
pub(super) fn markup(title: &str, lines: &[Line<'_>], columns: &[Column<'_>]) -> Markup {
    let cells: Vec<(&Column<'_>, Vec<Cell>)> = columns
        .iter()
        .map(|column| (column, used(column, lines, columns)))
        .filter(|(_, cells)| !cells.is_empty())
        .collect();
    let several = columns.len() > 1;
    html! {
        div.scroll tabindex="0" role="region" aria-label=(format!("Table: {title}")) {
            table.many[several] {
                caption { (title) ": the numbers" }
                thead {
                    @if several {
                        tr {
                            td {}
                            @for (column, cells) in &cells {
                                th.first.(column.class()) colspan=(cells.len()) scope="colgroup" {
                                    (column.letter()) " " (column.title())
                                }
                            }
                        }
                    }
                    tr {
                        th scope="col" { "path" }
                        @for (column, cells) in &cells {
                            @for (place, cell) in cells.iter().enumerate() {
                                th.first[place == 0] scope="col" { (cell.title(column.report)) }
                            }
                        }
                    }
                }
                tbody {
                    @for line in lines {
                        tr {
                            th scope="row" { (line.name) }
                            @for (column, cells) in &cells {
                                @for (place, cell) in cells.iter().enumerate() {
                                    td.first[place == 0] { (cell.markup(line, column, columns)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The numbers that any row of the column has.
fn used(column: &Column<'_>, lines: &[Line<'_>], columns: &[Column<'_>]) -> Vec<Cell> {
    let has = |cell: &Cell| {
        let mut of_column = lines
            .iter()
            .filter_map(|line| line.rows[at(column, columns)?]);
        match cell {
            Cell::Base => lines
                .iter()
                .any(|line| to_base(line, column, columns).is_some()),
            cell => of_column.any(|row| {
                let numbers = column.numbers(row);
                numbers.is_some_and(|numbers| cell.of(&numbers).is_some())
            }),
        }
    };
    CELLS.into_iter().filter(has).collect()
}

/// The place of a column among those of the table.
fn at(column: &Column<'_>, columns: &[Column<'_>]) -> Option<usize> {
    columns.iter().position(|other| other.place == column.place)
}

/// The median by that of the same row and backend of the first report, if both are times or both are instructions.
pub(super) fn to_base(line: &Line<'_>, column: &Column<'_>, columns: &[Column<'_>]) -> Option<f64> {
    let median = |column: &Column<'_>| line.rows[at(column, columns)?]?.median();
    let base = columns
        .iter()
        .find(|base| base.of_run == 0 && base.backend == column.backend)?;
    let is_comparable = column.of_run > 0
        && base.report.timing == column.report.timing
        && !base.is_emulated()
        && !column.is_emulated();
    let (new, old) = (median(column)?, median(base)?);
    (is_comparable && old > 0.0).then(|| new / old)
}

impl Cell {
    fn title(self, report: &Report) -> &'static str {
        match self {
            Self::Median => median_title(report),
            Self::Spread => "± spread",
            Self::P99 => "p99",
            Self::Rate => "rate",
            Self::Light => "light exits",
            Self::Heavy => "heavy exits",
            Self::Memory => "memory",
            Self::KernelMemory => "kernel memory",
            Self::Ratio => "ratio [95 % CI]",
            Self::Base => "to first file",
        }
    }

    /// The text of a number that the row alone has.
    fn of(self, numbers: &Numbers) -> Option<String> {
        match self {
            Self::Median => Some(numbers.median.clone()),
            Self::Spread => numbers.spread.clone(),
            Self::P99 => numbers.p99.clone(),
            Self::Rate => numbers.rate.clone(),
            Self::Light => numbers.exits.as_ref().map(|exits| exits[0].clone()),
            Self::Heavy => numbers.exits.as_ref().map(|exits| exits[1].clone()),
            Self::Memory => numbers.memory.clone(),
            Self::KernelMemory => numbers.kernel_memory.clone(),
            Self::Ratio => numbers.ratio.as_ref().map(ratio),
            Self::Base => None,
        }
    }

    fn markup(self, line: &Line<'_>, column: &Column<'_>, columns: &[Column<'_>]) -> Markup {
        let row: Option<&Row> = at(column, columns).and_then(|at| line.rows[at]);
        let text = match self {
            Self::Base => to_base(line, column, columns).map(units::ratio),
            cell => row
                .and_then(|row| column.numbers(row))
                .and_then(|numbers| cell.of(&numbers)),
        };
        html! {
            @match (self, text, row) {
                (Self::Median, Some(text), Some(row)) => { a href=(format!("#{}", samples::id(column, row))) { (text) } },
                (_, Some(text), _) => (text),
                (_, None, _) => "-",
            }
        }
    }
}

/// A ratio and its interval.
pub(super) fn ratio(ratio: &RatioCells) -> String {
    match &ratio.interval {
        Some([low, high]) => format!("{} [{low}, {high}]", ratio.value),
        None => ratio.value.clone(),
    }
}
