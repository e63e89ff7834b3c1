//! How the runs of each row scatter: a dot for each run, at its distance from the row's median.

use std::fmt::Write;

use maud::{Markup, html};
use svg::node::element::{Path, SVG};

use super::chart::legend;
use super::column::{PageColumn, PageLine};
use super::draw::{drawing, markup as drawn, text, upright};
use super::section::PageSection;
use crate::{Row, units};
use vmbell_statistics::percentile;

/// The height of a strip, in pixels.
const HEIGHT: u32 = 14;

/// The minimum that half of the axis covers, as a share of the median, so that small noise is not drawn large.
const LEAST: f64 = 0.02;

/// The section.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let drawn_columns: Vec<PageColumn<'_>> = columns
        .iter()
        .filter(|column| !column.is_emulated())
        .copied()
        .collect();
    let sections = PageSection::ALL.into_iter();
    let all: Vec<PageLine<'_>> = sections
        .flat_map(|section| section.lines(&drawn_columns))
        .collect();
    let limit = limit(&all, &drawn_columns);
    let shown: Vec<&PageColumn<'_>> = drawn_columns.iter().collect();
    html! {
        @if !all.is_empty() {
            section #scatter aria-labelledby="scatter-title" {
                h2 #scatter-title { "How the runs scatter" }
                p.lead {
                    "Each dot is a run, placed by its distance from the median of its row. On a quiet host all dots are in the "
                    "middle. Two groups of dots are two states of the host, and a tail to the right is disturbed runs. Dots "
                    "beyond the axis are drawn at its ends and counted."
                }
                details {
                    summary { "Strips of all rows" }
                    figure.chart {
                        (legend(&shown))
                        div.scale { (axis(limit)) }
                        ul.rows {
                            @for line in &all { li {
                                span.name { (line.name) }
                                div.bars { @for (column, row) in line.cells(&drawn_columns) { (strip(column, row, limit)) } }
                            } }
                        }
                        figcaption { "The axis is linear; its ends are at " (units::percent(limit)) " of the median." }
                    }
                }
            }
        }
    }
}

/// The distances of a row's runs from its median, as shares of the median.
fn distances(row: &Row) -> Vec<f64> {
    let times = row.times();
    let Some(times) = times.filter(|times| times.median > 0.0 && times.bound().is_none()) else {
        return Vec::new();
    };
    let distance = |sample: &f64| sample / times.median - 1.0;
    times.samples.iter().map(distance).collect()
}

/// Half of the axis: 95 of 100 runs are within it.
fn limit(lines: &[PageLine<'_>], columns: &[PageColumn<'_>]) -> f64 {
    let rows = lines.iter().flat_map(|line| line.cells(columns));
    let all: Vec<f64> = rows
        .flat_map(|(_, row)| distances(row))
        .map(f64::abs)
        .collect();
    percentile(&all, 0.95).unwrap_or(LEAST).clamp(LEAST, 1.0)
}

fn axis(limit: f64) -> Markup {
    let mut drawing = drawing(21);
    for (share, place) in [(-limit, 0.0), (0.0, 50.0), (limit, 100.0)] {
        let label = if share == 0.0 {
            "median".to_owned()
        } else {
            format!("{:+.1} %", share * 100.0)
        };
        drawing = drawing
            .add(text("tick", place, 12, &label))
            .add(upright("tick", place, 15, 21));
    }
    drawn(&drawing)
}

fn strip(column: &PageColumn<'_>, row: &Row, limit: f64) -> Markup {
    let distances = distances(row);
    let beyond = distances
        .iter()
        .filter(|distance| distance.abs() > limit)
        .count();
    html! {
        div.line.(column.class()) {
            (drawn(&dots(&distances, limit)))
            span.number {
                @if let Some(letter) = column.mark() { span.letter { (letter) " " } }
                @if distances.is_empty() { "below what can be told" }
                @else { (distances.len()) " runs" @if beyond > 0 { ", " (beyond) " beyond" } }
            }
        }
    }
}

/// Draws all dots as one path. Lines of zero length have round ends, which stay round under any scaling.
fn dots(distances: &[f64], limit: f64) -> SVG {
    let mut data = String::new();
    for distance in distances {
        let place = 500.0 + 500.0 * (distance / limit).clamp(-1.0, 1.0);
        // Writing to a String cannot fail.
        let _ = write!(data, "M{place:.0} 7h0");
    }
    let path = Path::new().set("class", "dots").set("d", data);
    let inner = SVG::new()
        .set("width", "100%")
        .set("height", HEIGHT)
        .set("viewBox", format!("0 0 1000 {HEIGHT}"))
        .set("preserveAspectRatio", "none")
        .add(path);
    drawing(HEIGHT)
        .add(upright("floor", 50.0, 0, HEIGHT))
        .add(inner)
}

#[cfg(test)]
#[path = "scatter_test.rs"]
mod tests;
