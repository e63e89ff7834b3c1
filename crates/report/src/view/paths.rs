//! The whole report of paths, for `--verbose` and for files: a header that can be pasted elsewhere, what the numbers
//! mean, a table for each group, and the ratios that answer the usual questions.
//!
//! [`brief`](mod@super::brief) is the short form.

use super::Look;
use super::answer::answer;
use super::excuses::excuses;
use super::header::{below_one, footnotes, header};
use super::numbers::{self, Lines, Number, Numbers};
use crate::table::{Block, Cell, Column, Paint, Table};
use crate::{Paths, Report};

/// The numbers of a row, in the order of the columns.
const NUMBERS: [Number; 14] = [
    Number::Median,
    Number::Spread,
    Number::P99,
    Number::Rate,
    Number::Mean,
    Number::Min,
    Number::Max,
    Number::Cpu,
    Number::Light,
    Number::Heavy,
    Number::Memory,
    Number::KernelMemory,
    Number::Ratio,
    Number::Interval,
];

pub(super) fn blocks(report: &Report, paths: &Paths, look: Look) -> Vec<Block> {
    let facts = header(report).into_iter();
    let facts = facts.map(|(label, text)| (label.to_owned(), text));
    let mut blocks = vec![Block::Facts(facts.collect())];
    for backend in &report.backends {
        let prefix = report.prefix(&backend.name);
        let sentences = answer(report, &backend.name).into_iter();
        blocks
            .extend(sentences.map(|sentence| {
                Block::Text(Cell::new(format!("{prefix}{sentence}"), Paint::Bold))
            }));
    }
    let mut columns = NUMBERS.to_vec();
    columns.extend(look.bars.then_some(Number::Bar));
    let numbers = Numbers::of(report, look.unit);
    for lines in Lines::of(report, |_| true) {
        blocks.push(Block::Table(lines.table(&numbers, &columns)));
    }
    let notes = footnotes(report).into_iter();
    blocks.extend(notes.map(|note| Block::Note(note.to_owned())));
    blocks.extend(excuses(report).iter().map(|excuse| excuse.block(report)));
    blocks.extend(highlights(report, paths));
    blocks
}

/// The highlights: each ratio with its interval, and what it compares.
fn highlights(report: &Report, paths: &Paths) -> Option<Block> {
    let all = &paths.highlights;
    let mut table = Table::new("row", all.iter().map(|highlight| &highlight.new));
    let cells =
        |cell: &dyn Fn(&crate::Highlight) -> Option<Cell>| all.iter().map(cell).collect::<Vec<_>>();
    table.add(
        Column::words("compared with").rank(2),
        cells(&|highlight| Some(Cell::from(&highlight.ratio.reference))),
    );
    table.add(
        Column::numbers("ratio"),
        cells(&|highlight| Some(Cell::new(numbers::value(&highlight.ratio), Paint::Bold))),
    );
    table.add(
        Column::numbers("95 % CI").rank(1),
        cells(&|highlight| numbers::interval(&highlight.ratio).map(Cell::from)),
    );
    table.add(
        Column::words("what"),
        cells(&|highlight| {
            let backend = report.prefix(&highlight.backend);
            Some(Cell::from(format!("{backend}{}", highlight.text)))
        }),
    );
    table.title = Some(format!(
        "ratios that matter (new/old, below 1 = {})",
        below_one(report)
    ));
    (!all.is_empty()).then_some(Block::Table(table))
}

#[cfg(test)]
#[path = "paths_test.rs"]
mod tests;
