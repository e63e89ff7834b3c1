//! Exits per operation: light exits are answered below the VMM, heavy exits by the VMM. For VMMs, the page also shows
//! the reasons of the exits.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::column::{PageColumn, PageLine, lines};
use super::draw;
use super::section::PageSection;
use crate::table::{Cell, Column, Table};
use crate::write::html;
use crate::{ExitReasons, Exits, Row, units};

/// Whether the section is on the page.
pub(super) fn has_any(columns: &[PageColumn<'_>]) -> bool {
    !counted(columns).is_empty()
}

/// The rows with exits.
fn counted<'r>(columns: &[PageColumn<'r>]) -> Vec<PageLine<'r>> {
    let has = |line: &PageLine<'_>| line.cells(columns).any(|(_, row)| exits(row).is_some());
    let all = PageSection::ALL
        .into_iter()
        .flat_map(|section| lines(section, columns));
    all.filter(has).collect()
}

/// The exits of a row, if exits to the VMM can be told from the others.
fn exits(row: &Row) -> Option<Exits> {
    row.exits().filter(|exits| exits.userspace.is_some())
}

fn reasons_of(row: &Row) -> Option<&ExitReasons> {
    row.measured()?.exit_reasons.as_ref()
}

/// The section; empty if no exits were counted.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let lines = counted(columns);
    let total = |row: &Row| {
        let exits = exits(row)?;
        exits.total.or(exits.userspace)
    };
    let all = lines
        .iter()
        .flat_map(|line| line.cells(columns))
        .filter_map(|(_, row)| total(row));
    let most = all.fold(1.0, f64::max);
    html! {
        @if !lines.is_empty() {
            section #exits aria-labelledby="exits-title" {
                h2 #exits-title { "Exits per operation" }
                p.lead {
                    "A light exit is handled in the kernel (KVM, or the stub of the usermode backend). A heavy exit goes on to the "
                    "VMM's process. Counts are exact on an emulated CPU too."
                }
                figure.chart {
                    ul.legend {
                        li.light { "light" }
                        li.heavy { "heavy" }
                    }
                    ul.rows {
                        @for line in &lines { li {
                            span.name { (line.name) }
                            div.bars { @for (column, row) in line.cells(columns) {
                                @if let Some(exits) = exits(row) { (bar(column, exits, most)) }
                            } }
                        } }
                    }
                    figcaption { "The scale is linear, and ends at " (units::per_op(most)) " exits." }
                }
                (reasons(columns))
            }
        }
    }
}

fn bar(column: &PageColumn<'_>, exits: Exits, most: f64) -> Markup {
    let amounts = [
        ("light", exits.light().unwrap_or_default()),
        ("heavy", exits.userspace.unwrap_or_default()),
    ];
    html! {
        div.line {
            (draw::stack(most, amounts))
            span.number {
                @if let Some(letter) = column.mark() { span.letter { (letter) " " } }
                @match exits.light() {
                    Some(light) => (units::per_op(light)),
                    None => "?",
                }
                " light, " (units::per_op(exits.userspace.unwrap_or_default())) " heavy"
            }
        }
    }
}

/// The kernel's reasons for exits, for every row that has them.
fn reasons(columns: &[PageColumn<'_>]) -> Markup {
    html! {
        @for column in columns {
            @let rows: Vec<(&Row, &ExitReasons)> = PageSection::ALL.into_iter().flat_map(|section| column.rows(section))
                .filter_map(|row| Some((row, reasons_of(row)?))).collect();
            @if !rows.is_empty() {
                details {
                    summary { "By the kernel's reasons: " (column.title()) }
                    (table(column, &rows))
                }
            }
        }
    }
}

fn table(column: &PageColumn<'_>, rows: &[(&Row, &ExitReasons)]) -> Markup {
    let title = column.title();
    let mut table = Table {
        title: Some(format!(
            "Exits of one operation on {title}, those for the host's interrupts among them"
        )),
        ..Table::new("path", rows.iter().map(|(row, _)| row.command.as_str()))
    };
    let cells = |of: fn(&ExitReasons) -> &BTreeMap<String, f64>| {
        rows.iter()
            .map(move |(_, reasons)| Some(Cell::from(listed(of(reasons)))))
    };
    table.add(
        Column::words("exits of the guest"),
        cells(|reasons| &reasons.kvm_exit),
    );
    table.add(
        Column::words("returns to the VMM"),
        cells(|reasons| &reasons.kvm_userspace_exit),
    );
    html::table(&table, &|_| None)
}

/// Reasons with their counts, the most frequent first.
fn listed(reasons: &BTreeMap<String, f64>) -> String {
    let mut reasons: Vec<(&String, &f64)> =
        reasons.iter().filter(|(_, count)| **count > 0.0).collect();
    reasons.sort_by(|a, b| b.1.total_cmp(a.1));
    let words = |(name, count): (&String, &f64)| format!("{name} {}", units::per_op(*count));
    if reasons.is_empty() {
        return "none".to_owned();
    }
    reasons
        .into_iter()
        .map(words)
        .collect::<Vec<_>>()
        .join(", ")
}
