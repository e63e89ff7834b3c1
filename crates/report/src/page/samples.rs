//! Every sample of every row, in the order of rounds: all other numbers on the page are computed from these.

use maud::{Markup, html};

use super::column::PageColumn;
use super::section::PageSection;
use crate::{PercentilesOf, Row, Times, units};

/// Samples per line of a table.
const ACROSS: usize = 5;

/// The identifier of a row's table, for links from figures.
pub(super) fn id(column: &PageColumn<'_>, row: &Row) -> String {
    // With many rows there are many identifiers, so the row's index is computed instead of searched for.
    let bytes = std::ptr::from_ref(row).addr() - column.report.results.as_ptr().addr();
    format!("samples-{}-{}", column.of_run, bytes / size_of::<Row>())
}

/// A folded table for each row.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let each = |section: PageSection| {
        let mut all = Vec::new();
        for line in section.lines(columns) {
            all.extend(line.cells(columns).map(|(column, row)| (*column, row)));
        }
        all
    };
    let rows: Vec<(PageColumn<'_>, &Row)> = PageSection::ALL.into_iter().flat_map(each).collect();
    html! {
        section #samples aria-labelledby="samples-title" {
            h2 #samples-title { "Samples" }
            p.lead {
                "One number for each run, in the order of rounds. Numbers at the same position in rows of one file were "
                "measured in the same round. The medians above link here."
            }
            @for (column, row) in rows { (of_row(&column, row)) }
        }
    }
}

fn of_row(column: &PageColumn<'_>, row: &Row) -> Markup {
    let Some(measured) = row.measured() else {
        return html! {};
    };
    let times = &measured.times;
    let summary = |label: &str, ns: Option<f64>| {
        ns.map(|ns| format!("{label} {}", units::measured(ns, column.report.timing)))
    };
    let percentiles = times.percentiles;
    let facts: Vec<String> = [
        summary("mean", Some(times.mean)),
        summary("standard deviation", times.stddev),
        summary("min", Some(times.min)),
        summary("max", Some(times.max)),
        summary("p90", percentiles.and_then(|p| p.p90)),
        summary("p99", percentiles.and_then(|p| p.p99)),
        summary("p99.9", percentiles.and_then(|p| p.p99_9)),
        summary("CPU time", measured.cpu()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let of = match times.percentiles_of {
        PercentilesOf::Runs => "percentiles are over runs",
        PercentilesOf::Operations => {
            "percentiles are of single operations, and a sample is the median of its run's operations"
        }
    };
    html! {
        details {
            summary {
                (row.command)
                @if column.mark().is_some() { " (" (column.title()) ")" }
                " - " (times.samples.len()) " samples"
            }
            p { (facts.join(", ")) "; " (of) "." }
            @if let Some(note) = &row.note { p { (note) } }
            div.scroll tabindex="0" role="region" aria-label=(format!("Samples of {}", row.command)) {
                table.samples id=(id(column, row)) {
                    caption { (unit(column)) " for one operation, by run; " (ops(times)) }
                    tbody {
                        @for (place, chunk) in times.samples.chunks(ACROSS).enumerate() {
                            tr {
                                th scope="row" { (place * ACROSS + 1) }
                                @for sample in chunk { td { (sample) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn unit(column: &PageColumn<'_>) -> &'static str {
    match column.report.timing {
        crate::Timing::Native if column.is_emulated() => "Nanoseconds of an emulated CPU",
        crate::Timing::Native => "Nanoseconds",
        crate::Timing::Emulated => "Nanoseconds of an emulated CPU",
        crate::Timing::Instructions => "Instructions",
    }
}

/// The number of operations of each run.
fn ops(times: &Times) -> String {
    if let Some(ops) = times.ops_per_run() {
        return format!("{} in each run", crate::units::plural(ops, "operation"));
    }
    let each: Vec<String> = times.ops.iter().map(u64::to_string).collect();
    format!("operations of the runs: {}", each.join(", "))
}
