//! The comparison on a terminal: what differs, a table for each group, and what a reader must know.

use std::fmt::Write;

use super::Comparison;
use super::cells::RowCells;
use crate::columns::{Cell, CellRow, Paint, layout, width};
use crate::text::wrap;
use crate::{Group, Look};

/// A column behind the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Old,
    New,
    Ratio,
    Interval,
    Verdict,
}

const COLUMNS: [Column; 5] = [
    Column::Old,
    Column::New,
    Column::Ratio,
    Column::Interval,
    Column::Verdict,
];

/// The columns in the order in which a table that is too wide leaves them out.
const LEFT_OUT: [Column; 4] = [Column::Old, Column::New, Column::Interval, Column::Ratio];

/// Writes `comparison` for a terminal.
pub fn terminal(comparison: &Comparison, look: Look) -> String {
    let mut text = String::new();
    let mut line = |paint: Paint, sentence: &str| {
        let sentence = wrap(sentence, 0, look.width);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", paint.apply(&sentence, look.color));
    };
    line(Paint::Plain, &comparison.headline());
    for difference in &comparison.differences {
        let paint = if difference.refused {
            Paint::Yellow
        } else {
            Paint::Dim
        };
        line(paint, &difference.to_string());
    }
    for (group, rows) in comparison.tables() {
        text.push('\n');
        text.push_str(&table(group, &rows, look));
    }
    let summary = wrap(&comparison.summary(), 0, look.width);
    let _ = writeln!(text, "\n{}", Paint::Bold.apply(&summary, look.color));
    for remark in comparison.remarks() {
        let _ = writeln!(text, "{}", wrap(&remark, 0, look.width));
    }
    text
}

/// Lays a table out, with as many columns as fit.
fn table(group: Group, rows: &[RowCells], look: Look) -> String {
    let mut columns = COLUMNS.to_vec();
    let mut left_out = LEFT_OUT.into_iter();
    loop {
        let title = std::iter::once(Cell::new(group.name(), Paint::Bold));
        let titles = columns
            .iter()
            .map(|column| Cell::new(column.title(), Paint::Bold));
        let mut laid_out: Vec<CellRow> = vec![title.chain(titles).collect()];
        laid_out.extend(rows.iter().map(|row| {
            let name = std::iter::once(Cell::from(row.name.as_str()));
            name.chain(columns.iter().map(|column| column.cell(row)))
                .collect()
        }));
        let fits = look.width.is_none_or(|most| width(&laid_out) <= most);
        match left_out.next() {
            Some(column) if !fits => columns.retain(|other| *other != column),
            _ => return layout(&laid_out, look.color),
        }
    }
}

impl Column {
    const fn title(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
            Self::Ratio => "new/old",
            Self::Interval => "95 % CI",
            Self::Verdict => "verdict",
        }
    }

    fn cell(self, row: &RowCells) -> Cell {
        match self {
            Self::Old => Cell::from(row.old.as_str()),
            Self::New => Cell::from(row.new.as_str()),
            Self::Ratio => Cell::new(row.ratio.as_str(), Paint::Bold),
            Self::Interval => Cell::from(match &row.interval {
                Some([low, high]) => format!("[{low}, {high}]"),
                None => "-".to_owned(),
            }),
            Self::Verdict => Cell::new(row.verdict.name(), row.verdict.paint()),
        }
    }
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
