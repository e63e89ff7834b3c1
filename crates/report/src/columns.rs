//! Aligned columns of text with colours. Padding counts characters and leaves out the colour codes.

use std::fmt::Write;

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

/// A row of cells. The last cell of a row that is too short extends over the columns that are missing.
pub(super) type CellRow = Vec<Cell>;

/// Lays `lines` out: the first column is aligned left, the others right.
pub(super) fn layout(lines: &[CellRow], color: bool) -> String {
    const GAP: usize = 2;
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![0; columns];
    for line in lines {
        let is_short = line.len() < columns;
        let counted = line.len() - usize::from(is_short && line.len() > 1);
        for (width, cell) in widths.iter_mut().zip(&line[..counted]) {
            *width = (*width).max(cell.text.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (index, cell) in line.iter().enumerate() {
            let painted = cell.paint.apply(&cell.text, color);
            let runs_on = index > 0 && index + 1 == line.len() && line.len() < columns;
            let pad = widths[index].saturating_sub(cell.text.chars().count());
            // Writing to a String cannot fail.
            let _ = match index {
                0 => write!(row, "{painted}{:pad$}", ""),
                _ if runs_on => write!(row, "{:GAP$}{painted}", ""),
                _ => write!(row, "{:GAP$}{:pad$}{painted}", "", ""),
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "columns_test.rs"]
mod tests;
