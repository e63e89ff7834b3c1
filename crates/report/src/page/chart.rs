//! A chart of rows: a bar for each column's median, or on a logarithmic axis a dot; a whisker for its spread, and lines for
//! the host's floors.

use maud::{Markup, html};

use super::axis::axis;
use super::column::{PageColumn, PageLine};
use super::draw::{self, Mark};
use super::scale::ChartScale;
use super::section::{PageSection, one_of_each_run};
use crate::{Row, Timing};

/// The floors that a chart draws as lines, each with its letter, its name, its median and the median as text.
#[derive(Debug, Default)]
pub(super) struct Floors(Vec<Floor>);

#[derive(Debug)]
struct Floor {
    letter: String,
    name: String,
    ns: f64,
    text: String,
}

impl Floors {
    /// The floors that limit the paths of `section`, from the first report.
    pub(super) fn of(section: PageSection, columns: &[PageColumn<'_>]) -> Self {
        let Some(column) = one_of_each_run(columns).first().copied() else {
            return Self::default();
        };
        let named = |name: &str| {
            let mut rows = column.rows(PageSection::Floors);
            rows.find(|row| row.command == name)
        };
        // The costs of KVM's own calls do not limit the paths of another backend.
        let has_kvm = columns.iter().any(|column| column.backend == "kvm");
        let is_limit = |name: &&&str| has_kvm || !name.starts_with("floor-kvm-");
        let floors = section.floors().iter().filter(is_limit);
        let rows = floors.filter_map(|name| named(name));
        let of_row = |(letter, row): (char, &Row)| {
            Some(Floor {
                letter: letter.to_string(),
                name: row.command.clone(),
                ns: row.median()?,
                text: column.median(row)?,
            })
        };
        Self(('a'..='z').zip(rows).filter_map(of_row).collect())
    }

    /// Keeps only the first two floors, for the first screen.
    pub(super) fn keep_few(&mut self) {
        self.0.truncate(2);
    }

    fn medians(&self) -> Vec<f64> {
        self.0.iter().map(|floor| floor.ns).collect()
    }
}

/// The chart of `lines`, or a sentence if nothing can be drawn.
pub(super) fn markup(
    lines: &[PageLine<'_>],
    columns: &[PageColumn<'_>],
    floors: &Floors,
) -> Markup {
    let Some(first) = columns.iter().find(|column| !column.is_emulated()) else {
        return html! {
            p.note { "No chart: the CPU was emulated, so times say nothing about hardware. Exit counts are exact." }
        };
    };
    let drawn: Vec<&PageColumn<'_>> = columns
        .iter()
        .filter(|column| column.is_drawn_beside(first))
        .collect();
    let is_drawn = |column: &PageColumn<'_>| drawn.iter().any(|other| other.place == column.place);
    let marks = lines
        .iter()
        .flat_map(|line| line.cells(columns))
        .filter(|(column, _)| is_drawn(column))
        .filter_map(|(_, row)| mark(row));
    let ends = marks.flat_map(|mark| {
        [
            mark.median,
            mark.whisker.map_or(mark.median, |ends| ends[1]),
        ]
    });
    let Some(scale) = ChartScale::of(ends.chain(floors.medians())) else {
        return html! {};
    };
    let letters: Vec<(String, f64)> = floors
        .0
        .iter()
        .map(|floor| (floor.letter.clone(), floor.ns))
        .collect();
    let timing = first.report.timing;
    html! {
        figure.chart {
            (legend(&drawn))
            div.scale { (axis(scale, timing, &letters)) }
            ul.rows {
                @for line in lines {
                    li {
                        span.name title=[line.description()] { (line.name) }
                        div.bars {
                            @for (column, row) in line.cells(columns).filter(|(column, _)| is_drawn(column)) {
                                (bar(scale, column, row, &floors.medians()))
                            }
                        }
                    }
                }
            }
            figcaption {
                (caption(scale, timing))
                @if !floors.0.is_empty() {
                    " Dotted lines are floors of the host: "
                    @for (place, floor) in floors.0.iter().enumerate() {
                        @if place > 0 { ", " }
                        b { (floor.letter) } " " (floor.name) " (" (floor.text) ")"
                    }
                    "."
                }
                @if drawn.len() < columns.len() {
                    " Not drawn, because their numbers have another unit: "
                    @for (place, column) in columns.iter().filter(|column| !is_drawn(column)).enumerate() {
                        @if place > 0 { ", " }
                        (column.title())
                    }
                    "."
                }
            }
        }
    }
}

/// What the columns' letters and colours mean; empty if there is only one column.
pub(super) fn legend(drawn: &[&PageColumn<'_>]) -> Markup {
    html! {
        @if drawn.iter().any(|column| column.mark().is_some()) {
            ul.legend {
                @for column in drawn {
                    li class=(column.class()) { b { (column.letter()) } " " (column.title()) }
                }
            }
        }
    }
}

fn bar(scale: ChartScale, column: &PageColumn<'_>, row: &Row, floors: &[f64]) -> Markup {
    let Some((median, mark)) = column.median(row).zip(mark(row)) else {
        return html! {};
    };
    html! {
        div.line.(column.class()) {
            (draw::row(scale, mark, floors))
            span.number {
                @if let Some(letter) = column.mark() { span.letter { (letter) " " } }
                (median)
            }
        }
    }
}

/// What is drawn for a row.
fn mark(row: &Row) -> Option<Mark> {
    let bound = row.bound();
    let median = bound.or(row.median())?;
    let spread = row.times()?.spread.filter(|_| bound.is_none());
    Some(Mark {
        median,
        whisker: spread.map(|spread| [1.0 - spread, 1.0 + spread].map(|share| share * median)),
        is_bound: bound.is_some(),
    })
}

fn caption(scale: ChartScale, timing: Timing) -> Markup {
    let what = match timing {
        Timing::Native | Timing::Emulated => "Median time of one operation",
        Timing::Instructions => "Median number of instructions per operation, not a time",
    };
    html! {
        (what) "; the whisker is one robust standard deviation of the runs to either side. " (scale.in_words())
    }
}
