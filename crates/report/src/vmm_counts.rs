//! What rows of VMMs count besides exits: below the table of exits one for each name, per operation.

use std::fmt::Write;

use super::columns::{Cell, layout};
use super::markdown::escape;
use super::statistics::median;
use super::vmm_table::{cut, measured, names, padded, row, title};
use super::{Look, Report, Row, Vmm, units};

/// The tables for a terminal, each with a blank line before it.
pub(super) fn terminal(report: &Report, look: Look) -> String {
    let mut text = String::new();
    for count in counts(report) {
        let (columns, names) = (measured(report), counted(report, count));
        let cell =
            |vmm: &Vmm, name: &str| Cell::from(padded(&cell(report, vmm, name, count), false));
        for block in cut(&columns, &names, look.width, (&heading(count), &cell)) {
            text.push('\n');
            text.push_str(&layout(&block, look.color));
        }
    }
    text
}

/// The tables in Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for count in counts(report) {
        let columns = measured(report);
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, "\n| {} |", escape(&heading(count)));
        for vmm in &columns {
            let _ = write!(text, " {} |", escape(&title(vmm)));
        }
        let _ = writeln!(text, "\n|:---|{}", "---:|".repeat(columns.len()));
        for name in counted(report, count) {
            let _ = write!(text, "| `{name}` |");
            for vmm in &columns {
                let _ = write!(text, " {} |", cell(report, vmm, name, count));
            }
            text.push('\n');
        }
    }
    text
}

fn heading(count: &str) -> String {
    format!("{count}/op")
}

/// The names of all counts, in their order.
fn counts(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let measured = report.results.iter().filter_map(Row::measured);
    for (name, _) in measured.flat_map(|row| row.counts.iter()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The rows that have the count.
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
fn cell(report: &Report, vmm: &Vmm, name: &str, count: &str) -> String {
    let per_op = || {
        let row = row(report, vmm, name)?;
        let runs = of(row, count)?.iter().zip(&row.times()?.ops);
        #[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
        let each = runs.map(|(count, ops)| *count as f64 / (*ops).max(1) as f64);
        median(&each.collect::<Vec<f64>>())
    };
    per_op().map_or_else(|| "-".to_owned(), units::per_op)
}

#[cfg(test)]
#[path = "vmm_counts_test.rs"]
mod tests;
