//! Aligned columns of text with colours. Padding counts cells of a terminal and leaves out the colour codes.

use std::fmt::Write;

use super::text;

/// The colour or weight of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

impl Paint {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Green => Some("32"),
            Self::Red => Some("31"),
            Self::Yellow => Some("33"),
        }
    }

    /// `text` with the escape codes of this paint, if `color` is on.
    pub(super) fn apply(self, text: &str, color: bool) -> String {
        match self.code().filter(|_| color && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) paint: Paint,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, paint: Paint) -> Self {
        Self {
            text: text.into(),
            paint,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Paint::Plain)
    }
}

/// A row of cells. Rows may differ in length; the cells that a shorter one lacks are empty.
pub(super) type CellRow = Vec<Cell>;

/// The blanks between two columns.
const GAP: usize = 2;

/// How wide each column is, in cells of a terminal.
fn widths(rows: &[CellRow]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(&cell.text));
        }
    }
    widths
}

/// How wide `rows` are when they are laid out, in cells of a terminal.
pub(super) fn width(rows: &[CellRow]) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Lays `rows` out: the first column is aligned left, the others right.
pub(super) fn layout(rows: &[CellRow], color: bool) -> String {
    let widths = widths(rows);
    let mut lines = String::new();
    for row in rows {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let painted = cell.paint.apply(&cell.text, color);
            let pad = width.saturating_sub(text::width(&cell.text));
            // Writing to a String cannot fail.
            let _ = match index {
                0 => write!(line, "{painted}{:pad$}", ""),
                _ => write!(line, "{:GAP$}{:pad$}{painted}", "", ""),
            };
        }
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

/// Lays rows out without colours: the first column is aligned left, the others right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let cells = |row: &Vec<String>| row.iter().map(Cell::from).collect();
    let rows: Vec<CellRow> = rows.iter().map(cells).collect();
    layout(&rows, false)
}

#[cfg(test)]
#[path = "columns_test.rs"]
mod tests;
