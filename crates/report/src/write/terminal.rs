//! Blocks on a terminal: aligned columns, lines broken between words, colours, and nothing wider than the screen if the
//! width is known.

use crate::table::{Align, Block, Cell, Column, Overflow, Paint, Table};
use crate::text::{pad, shortened_in_the_middle, visible, width, wrap};

/// The number of blanks between columns, unless the table is dense.
const GAP: usize = 2;

/// The widest column title that is not broken, in tables whose columns may continue below.
const TITLE: usize = 12;
/// The minimum width for words that continue in the lines below.
const WORDS: usize = 24;

/// The terminal to write for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Whether the terminal shows colours.
    pub color: bool,
    /// The number of characters that fit into a line, if that is limited.
    pub width: Option<usize>,
}

/// Writes blocks for a terminal. Control characters in them are shown, not obeyed.
pub fn terminal(blocks: &[Block], screen: Screen) -> String {
    let mut text = String::new();
    let mut before: Option<&Block> = None;
    for block in blocks {
        if before.is_some_and(|before| is_apart(before, block)) {
            text.push('\n');
        }
        screen.block(block, &mut text);
        before = Some(block);
    }
    text
}

/// The lines of a table, for a screen that draws them itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLines {
    /// The columns that fit, as indices in the table, each with its title, padded to the column's width and gap.
    pub titles: Vec<(usize, String)>,
    /// The rows, without colours.
    pub rows: Vec<String>,
}

/// Lays out a table in lines of this width. Words of its last column are not broken.
pub fn table_lines(table: &Table, width: usize) -> TableLines {
    let fitting = Screen {
        color: false,
        width: Some(width),
    };
    let columns = fitting.leave_out(Sized::all(table));
    let titles = columns.iter().enumerate().map(|(at, column)| {
        let title = visible(&column.column.title);
        (column.place, column.aligned(at, (&title, ""), &title))
    });
    let rows =
        (0..table.rows()).map(|row| Screen::default().line_of(&columns, &cells(&columns, row)));
    TableLines {
        titles: titles.collect(),
        rows: rows.collect(),
    }
}

/// The cells of a row.
fn cells(columns: &[Sized<'_>], row: usize) -> Vec<Cell> {
    let cell = |column: &Sized<'_>| column.column.cells.get(row).cloned().unwrap_or_default();
    columns.iter().map(cell).collect()
}

/// Whether there is an empty line between these two blocks.
const fn is_apart(before: &Block, after: &Block) -> bool {
    !matches!(
        (before, after),
        (Block::Table(_) | Block::Note(_), Block::Note(_))
            | (
                Block::Text(_) | Block::Detail(..),
                Block::Text(_) | Block::Detail(..)
            )
    )
}

impl Screen {
    fn block(self, block: &Block, text: &mut String) {
        match block {
            Block::Facts(facts) => {
                let labels = facts.iter().map(|(label, _)| width(&visible(label)));
                let widest = labels.max().unwrap_or_default();
                for (label, fact) in facts {
                    let fact = wrap(&visible(fact), widest + GAP, self.width);
                    let label = self.paint(&pad(&visible(label), widest), Paint::Dim);
                    text.push_str(&format!("{label}  {fact}\n"));
                }
            }
            Block::Text(sentence) => self.line(&sentence.text, sentence.paint, 0, text),
            Block::Detail(what, details) => {
                self.line(&what.text, what.paint, GAP, text);
                let details = wrap(&visible(details), GAP, self.width);
                text.push_str(&format!("{:GAP$}{details}\n", ""));
            }
            Block::Note(note) => self.line(note, Paint::Dim, 0, text),
            Block::Table(table) => {
                if let Some(title) = &table.title {
                    self.line(title, Paint::Bold, 0, text);
                }
                for (place, part) in self.parts(table).iter().enumerate() {
                    if place > 0 {
                        text.push('\n');
                    }
                    self.lay_out(part, table.rows(), text);
                }
            }
        }
    }

    fn line(self, sentence: &str, paint: Paint, indent: usize, text: &mut String) {
        let sentence = wrap(&visible(sentence), indent, self.width);
        text.push_str(&self.paint(&sentence, paint));
        text.push('\n');
    }

    fn fits(self, columns: &[Sized<'_>]) -> bool {
        // Words of the last column continue in the lines below.
        let last = columns.len().wrapping_sub(1);
        let widths = columns.iter().enumerate().map(|(place, column)| {
            match place == last && place > 0 && column.column.align == Align::Left {
                true => column.width.min(WORDS),
                false if column.column.is_shortened => column.least() + column.mark,
                false => column.width + column.mark,
            }
        });
        let all = widths.sum::<usize>() + gaps(columns);
        self.width.is_none_or(|width| all <= width)
    }

    /// Removes the columns of the highest rank until the others fit.
    fn leave_out<'t>(self, mut columns: Vec<Sized<'t>>) -> Vec<Sized<'t>> {
        while !self.fits(&columns) {
            let ranks = columns.iter().map(|column| column.column.rank);
            match ranks.max() {
                None | Some(0) => break,
                Some(rank) => columns.retain(|column| column.column.rank != rank),
            }
        }
        let all: usize = columns
            .iter()
            .map(|column| column.width + column.mark)
            .sum();
        let over = self
            .width
            .map_or(0, |width| (all + gaps(&columns)).saturating_sub(width));
        let shortened = columns.iter_mut().find(|column| column.column.is_shortened);
        if let Some(column) = shortened {
            column.width = column.width.saturating_sub(over).max(column.least());
        }
        columns
    }

    /// The columns of a table: those that fit, or all of them in as many parts as necessary.
    fn parts(self, table: &Table) -> Vec<Vec<Sized<'_>>> {
        let columns = Sized::all(table);
        if table.overflow == Overflow::LeaveOut {
            return vec![self.leave_out(columns)];
        }
        let mut parts: Vec<Vec<Sized<'_>>> = Vec::new();
        let mut columns = columns.into_iter();
        let Some(names) = columns.next() else {
            return parts;
        };
        for column in columns {
            if let Some(part) = parts.last_mut() {
                part.push(column.clone());
                if self.fits(part) {
                    continue;
                }
                part.pop();
            }
            parts.push(vec![names.clone(), column]);
        }
        parts
    }

    fn lay_out(self, columns: &[Sized<'_>], rows: usize, text: &mut String) {
        if columns.iter().any(|column| column.column.group.is_some()) {
            let mut last = None;
            let groups = columns.iter().map(|column| {
                let group = column.column.group.as_deref();
                let is_new = group != last;
                last = group;
                Cell::new(group.filter(|_| is_new).unwrap_or_default(), Paint::Bold)
            });
            self.row(columns, &groups.collect::<Vec<_>>(), text);
        }
        for line in 0..2 {
            let titles: Vec<Cell> = columns
                .iter()
                .map(|column| Cell::new(column.title[line], Paint::Bold))
                .collect();
            if titles.iter().any(|title| !title.text.is_empty()) {
                self.row(columns, &titles, text);
            }
        }
        for row in 0..rows {
            self.row(columns, &cells(columns, row), text);
        }
    }

    fn row(self, columns: &[Sized<'_>], cells: &[Cell], text: &mut String) {
        text.push_str(&self.line_of(columns, cells));
        text.push('\n');
    }

    /// Joins the cells of a row. Words in the last cell continue in the lines below.
    fn line_of(self, columns: &[Sized<'_>], cells: &[Cell]) -> String {
        let mut line = String::new();
        let mut start = 0;
        for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let mut shown = visible(&cell.text);
            if place > 0 {
                start += column.gap;
            }
            if column.column.is_shortened {
                shown = shortened_in_the_middle(&shown, column.width);
            } else if place + 1 == columns.len() && column.column.align == Align::Left {
                shown = wrap(&shown, start, self.width);
            }
            start += column.width + column.mark;
            let painted = self.paint(&format!("{shown}{}", cell.mark), cell.paint);
            line.push_str(&column.aligned(place, (&shown, cell.mark), &painted));
        }
        line.trim_end().to_owned()
    }

    fn paint(self, text: &str, paint: Paint) -> String {
        let code = match paint {
            Paint::Plain => None,
            Paint::Bold => Some("1"),
            Paint::Dim => Some("2"),
            Paint::Green => Some("32"),
            Paint::Red => Some("31"),
            Paint::Yellow => Some("33"),
        };
        match code.filter(|_| self.color && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

/// The blanks between all columns.
fn gaps(columns: &[Sized<'_>]) -> usize {
    columns.iter().skip(1).map(|column| column.gap).sum()
}

/// A column with its widths in cells of the terminal.
#[derive(Clone)]
struct Sized<'t> {
    column: &'t Column,
    /// The column's index in the table.
    place: usize,
    /// The number of blanks before the column, unless it is the first column of a line.
    gap: usize,
    /// The title in two lines. The first line is empty if the title is not broken.
    title: [&'t str; 2],
    /// The width of the texts and of the title.
    width: usize,
    /// The width of the marks after the texts.
    mark: usize,
}

impl<'t> Sized<'t> {
    /// The columns of a table.
    fn all(table: &'t Table) -> Vec<Self> {
        let columns = table.columns.iter().enumerate();
        let sized = columns.map(|(place, column)| Self::new(column, place, table));
        sized.collect()
    }

    /// The group's title is above its first column. In tables of many columns, a title that makes its column much wider
    /// than its numbers is broken at the first hyphen, except for the column of names.
    fn new(column: &'t Column, place: usize, table: &'t Table) -> Self {
        let before = place.checked_sub(1);
        let before = before.and_then(|before| table.columns.get(before));
        let is_of_many = table.overflow == Overflow::Continue && before.is_some();
        let cells = || column.cells.iter();
        let of_cells = cells().map(|cell| width(&visible(&cell.text))).max();
        let of_cells = of_cells.unwrap_or_default();
        let title = column.title.as_str();
        let broken = match title.find('-') {
            Some(hyphen) if is_of_many && width(title) > of_cells.max(TITLE) => {
                let (first, second) = title.split_at(hyphen + 1);
                [first, second]
            }
            _ => ["", title],
        };
        let of_titles = broken.map(|part| width(&visible(part)));
        let of_group = column
            .group
            .as_deref()
            .filter(|_| before.is_none_or(|before| before.group != column.group))
            .map_or(0, |group| width(&visible(group)));
        let widths = [of_cells, of_titles[0], of_titles[1], of_group, column.least];
        Self {
            column,
            place,
            gap: if table.is_dense { 1 } else { GAP },
            title: broken,
            width: widths.into_iter().max().unwrap_or_default(),
            mark: cells()
                .map(|cell| width(cell.mark))
                .max()
                .unwrap_or_default(),
        }
    }

    /// The minimum width to which the column may be shortened.
    fn least(&self) -> usize {
        let title = width(&visible(&self.column.title));
        self.column.least.max(title).min(self.width)
    }

    /// A text with its mark, as painted, padded to the column's width, after the blanks before the column.
    fn aligned(&self, at: usize, (text, mark): (&str, &str), painted: &str) -> String {
        let blanks = self.width.saturating_sub(width(text));
        let blanks_of_mark = self.mark.saturating_sub(width(mark));
        let (left, right) = match self.column.align {
            Align::Left => (0, blanks + blanks_of_mark),
            Align::Right => (blanks, blanks_of_mark),
        };
        let left = left + if at > 0 { self.gap } else { 0 };
        format!("{:left$}{painted}{:right$}", "", "")
    }
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
