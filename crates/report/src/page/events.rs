//! Events per operation, for reports that counted them: a line for each event, and a column for each row.

use maud::{Markup, html};

use super::column::PageColumn;
use super::section::PageSection;
use crate::table::{Cell, Column, Table};
use crate::write::html;
use crate::{Row, units};

/// The section; empty if no events were counted.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let counted: Vec<(&PageColumn<'_>, Vec<&Row>)> = columns
        .iter()
        .map(|column| (column, rows(column)))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    html! {
        @if !counted.is_empty() {
            section #events aria-labelledby="events-title" {
                h2 #events-title { "Events of one operation" }
                p.lead { "What the host, the backend or the row itself counted, by the operations of all runs." }
                @for (column, rows) in &counted { (table(column, rows)) }
            }
        }
    }
}

fn rows<'r>(column: &PageColumn<'r>) -> Vec<&'r Row> {
    let all = PageSection::ALL
        .into_iter()
        .flat_map(|section| column.rows(section));
    all.filter(|row| row.counted().next().is_some()).collect()
}

fn table(column: &PageColumn<'_>, rows: &[&Row]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| row.counted()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = Table {
        title: Some(format!("Events of one operation on {}", column.title())),
        ..Table::new("event", names.iter().copied())
    };
    for row in rows {
        let cell = |name: &&str| per_op(row, name).map(|count| Cell::from(units::per_op(count)));
        table.add(Column::numbers(&row.command), names.iter().map(cell));
    }
    html::table(&table, &|_| None)
}

/// How often an event happened per operation.
#[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
fn per_op(row: &Row, name: &str) -> Option<f64> {
    let (_, counts) = row.counted().find(|(other, _)| *other == name)?;
    let ops: u64 = row.times()?.ops.iter().sum();
    let count: u64 = counts.iter().sum();
    (ops > 0).then(|| count as f64 / ops as f64)
}
