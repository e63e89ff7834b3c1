//! What rows of VMMs count in addition to exits: for each name a table of counts per operation, after the exits.

use super::vmms::{measured, names, row, table};
use crate::table::{Block, Cell};
use crate::{Counts, Report, Row, Vmm, units};
use vmbell_statistics::median;

pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let table = |count| {
        let names = counted(report, count);
        let title = format!("{count}/op");
        table(&measured(report), &title, &names, |vmm, name| {
            cell(report, vmm, name, count)
        })
    };
    let rows = report.results.iter().filter_map(Row::measured);
    let counts = Counts::names(rows.map(|row| &row.counts));
    counts.into_iter().filter_map(table).collect()
}

/// The names of the rows that have this count.
fn counted<'r>(report: &'r Report, count: &str) -> Vec<&'r str> {
    let has = |name: &&str| {
        let rows = &mut report.results.iter();
        rows.any(|row| row.command == *name && of(row, count).is_some())
    };
    names(report).into_iter().filter(has).collect()
}

/// The count in each run.
fn of<'r>(row: &'r Row, count: &str) -> Option<&'r [u64]> {
    row.measured()?.counts.get(count)
}

/// The median over runs, per operation.
fn cell(report: &Report, vmm: &Vmm, name: &str, count: &str) -> Option<Cell> {
    let row = row(report, vmm, name)?;
    let runs = of(row, count)?.iter().zip(&row.times()?.ops);
    #[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
    let each = runs.map(|(count, ops)| *count as f64 / (*ops).max(1) as f64);
    let median = median(&each.collect::<Vec<f64>>())?;
    Some(Cell::from(units::per_op(median)))
}

#[cfg(test)]
#[path = "vmm_counts_test.rs"]
mod tests;
