//! What the costs mean: how many cores each path keeps busy at a given rate, and what a different path would save.

use maud::{Markup, html};

use super::column::PageColumn;
use super::headline::first_names;
use super::section::PageSection;
use crate::table::{Cell, Column, Paint, Table};
use crate::write::html;
use crate::{PercentilesOf, Row, Timing, units};

/// Notifications per second, in numbers and in words.
const RATES: [(f64, &str); 3] = [
    (10e3, "10 thousand"),
    (100e3, "100 thousand"),
    (1e6, "1 million"),
];

/// The rate for which savings are shown: the middle one.
const SAVED_AT: (f64, &str) = RATES[1];

/// Whether the section is on the page.
pub(super) fn has_any(columns: &[PageColumn<'_>]) -> bool {
    columns.iter().any(|column| !paths(column).is_empty())
}

/// The rows whose operations were done back to back, so that their time is vCPU time.
fn paths<'r>(column: &PageColumn<'r>) -> Vec<&'r Row> {
    let is_emulated = column.is_emulated() || column.emulates_kernel_mode();
    if column.report.timing != Timing::Native || is_emulated {
        return Vec::new();
    }
    let is_busy = |row: &&Row| {
        row.timing_valid
            && row
                .times()
                .is_some_and(|times| times.percentiles_of == PercentilesOf::Runs)
    };
    PageSection::ALL
        .into_iter()
        // An operation of a variant is not a single notification of a single vCPU.
        .filter(|section| !matches!(section, PageSection::Floors | PageSection::Variants))
        .flat_map(|section| column.rows(section))
        .filter(is_busy)
        .collect()
}

/// The section. For columns without times of hardware it says why they have no cores.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let (timed, others): (Vec<_>, Vec<_>) =
        columns.iter().partition(|column| !paths(column).is_empty());
    html! {
        section #cores aria-labelledby="cores-title" {
            h2 #cores-title { "What it means: cores" }
            @if timed.is_empty() {
                p.note { "No row was timed on real hardware, so cores cannot be computed." }
            } @else {
                p.lead {
                    "Cost times rate is the share of one core that a vCPU spends on notifications, including the time that it "
                    "waits for the VMM. Work of other threads is not included. " b { "▲" } " marks more than one core, "
                    "which a single vCPU cannot reach."
                }
                @let first = first_names(columns);
                @for column in &timed { (of_column(column, &first)) }
                @if !others.is_empty() {
                    p.note {
                        "Not timed on real hardware, so without cores: "
                        @for (place, column) in others.iter().enumerate() {
                            @if place > 0 { ", " }
                            (column.title())
                        }
                        "."
                    }
                }
            }
        }
    }
}

/// The rows of the first screen, and all rows in a folded table.
fn of_column(column: &PageColumn<'_>, first: &[&str]) -> Markup {
    let title = match column.mark() {
        Some(letter) => format!("{letter} {}", column.title()),
        None => column.title(),
    };
    let all = paths(column);
    let few: Vec<&Row> = all
        .iter()
        .copied()
        .filter(|row| first.contains(&row.command.as_str()))
        .collect();
    html! {
        @if !few.is_empty() && few.len() < all.len() {
            (table(column, &format!("Cores kept busy on {title}, by notifications per second"), &few))
        }
        details open[few.is_empty() || few.len() == all.len()] {
            summary { "All " (all.len()) " paths on " (title) }
            (table(column, &format!("Cores kept busy on {title} by all paths, by notifications per second"), &all))
        }
    }
}

fn table(column: &PageColumn<'_>, caption: &str, paths: &[&Row]) -> Markup {
    let suite = column.report.paths();
    let is_compared = suite.is_none_or(|suite| suite.ratios_to != "first value");
    let mut table = Table {
        title: Some(caption.to_owned()),
        ..Table::new("path", paths.iter().map(|row| row.command.as_str()))
    };
    let costs = paths.iter().map(|row| column.median(row).map(Cell::from));
    table.add(Column::numbers("cost"), costs);
    for (rate, words) in RATES {
        let cells = paths.iter().map(|row| Some(cores(row, rate)));
        table.add(Column::numbers(words), cells);
    }
    if is_compared {
        let title = format!("saved at {}", SAVED_AT.1);
        table.add(Column::numbers(title), paths.iter().map(|row| saved(row)));
    }
    html::table(&table, &|_| None)
}

/// The cost of a row, or its upper bound if no more is known.
fn cost(row: &Row) -> Option<f64> {
    row.bound().or(row.median())
}

/// The number of cores that are busy at this rate, in red and with a ▲ if it is more than one.
fn cores(row: &Row, rate: f64) -> Cell {
    let cores = cost(row).unwrap_or_default() * rate / 1e9;
    let below = if row.bound().is_some() { "<" } else { "" };
    let number = number(cores);
    match cores > 1.0 {
        true => Cell::new(format!("{below}{number} ▲"), Paint::Red),
        false => Cell::from(format!("{below}{number}")),
    }
}

/// The cores that a vCPU has left for other work if it takes this path instead of its reference; negative if the path
/// costs more.
fn saved(row: &Row) -> Option<Cell> {
    let ratio = row.ratio().filter(|ratio| ratio.value > 0.0)?;
    let cores = cost(row)? * (1.0 / ratio.value - 1.0) * SAVED_AT.0 / 1e9;
    let sign = if cores < 0.0 { "−" } else { "" };
    let (cores, reference) = (number(cores.abs()), &ratio.reference);
    Some(Cell::from(format!("{sign}{cores} against {reference}")))
}

/// A number of cores with two or three significant digits.
fn number(cores: f64) -> String {
    match cores {
        cores if cores >= 0.0995 => units::count(cores),
        cores if cores >= 0.00995 => format!("{cores:.3}"),
        cores if cores >= 0.000_995 => format!("{cores:.4}"),
        _ => "<0.001".to_owned(),
    }
}

#[cfg(test)]
#[path = "meaning_test.rs"]
mod tests;
