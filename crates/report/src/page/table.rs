//! The numbers of a section as a table: a line for each path, and the page's columns next to each other.

use maud::Markup;

use super::column::{PageColumn, PageLine};
use super::samples;
use crate::table::{Cell, Column, Table};
use crate::units;
use crate::view::numbers::{Number, Numbers};
use crate::write::html;

/// The numbers that a column of the page can have.
const NUMBERS: [Number; 11] = [
    Number::Median,
    Number::Spread,
    Number::P99,
    Number::Rate,
    Number::Light,
    Number::Heavy,
    Number::Memory,
    Number::KernelMemory,
    Number::Change,
    Number::Ratio,
    Number::Interval,
];

/// The table of `lines`.
pub(super) fn markup(title: &str, lines: &[PageLine<'_>], columns: &[PageColumn<'_>]) -> Markup {
    let mut table = Table {
        title: Some(format!("{title}: the numbers")),
        ..Table::new("path", lines.iter().map(|line| line.name))
    };
    let group = |column: &PageColumn<'_>| {
        (columns.len() > 1).then(|| format!("{} {}", column.letter(), column.title()))
    };
    for (place, column) in columns.iter().enumerate() {
        let numbers = Numbers::of(column.report, None);
        for number in NUMBERS {
            let cells = lines.iter().map(|line| {
                let row = line.rows[place]?;
                let cell = numbers.cell(number, row)?;
                let link = || samples::id(column, row);
                let link = (number == Number::Median).then(link);
                Some(Cell { link, ..cell })
            });
            table.add(numbers.column(number).in_group(group(column)), cells);
        }
        let cells = lines.iter().map(|line| {
            let ratio = to_base(line, column, columns)?;
            Some(Cell::from(units::ratio(ratio)))
        });
        let base = Column::numbers("to first file");
        table.add(base.in_group(group(column)), cells);
    }
    html::table(&table, &|of| {
        let column = columns
            .iter()
            .find(|column| group(column).as_deref() == Some(of));
        column.map(PageColumn::class)
    })
}

/// The index of a column among the columns of the table.
fn at(column: &PageColumn<'_>, columns: &[PageColumn<'_>]) -> Option<usize> {
    columns.iter().position(|other| other.place == column.place)
}

/// The median divided by that of the same row and backend in the first report, if both are times or both instructions.
pub(super) fn to_base(
    line: &PageLine<'_>,
    column: &PageColumn<'_>,
    columns: &[PageColumn<'_>],
) -> Option<f64> {
    let median = |column: &PageColumn<'_>| line.rows[at(column, columns)?]?.median();
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
