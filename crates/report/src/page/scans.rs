//! Scans as curves: how the cost of a path grows with a parameter, such as the number of other doorbells.

use std::collections::{BTreeSet, HashMap};

use maud::{Markup, html};
use svg::node::element::{Circle, Polyline, SVG};

use super::axis::label;
use super::chart::legend;
use super::column::{PageColumn, PageLine, lines};
use super::draw::{across, drawing, height, markup as drawn, percent, text, upright};
use super::scale::ChartScale;
use super::section::PageSection;
use crate::{Row, Timing};

/// Separates a path's name from the values of scanned parameters.
const PARAMETER: char = ',';

/// The height of a drawing between its axes, in pixels.
const HEIGHT: u32 = 120;

/// Where curves begin and end horizontally, in per cent: labels are to the left, and half a label is to the right.
const LEFT: f64 = 18.0;
const RIGHT: f64 = 94.0;

/// The curves of one path over one parameter.
struct ScanCurves<'r> {
    path: &'r str,
    /// The parameter, and the values of the other parameters.
    parameter: &'r str,
    others: String,
    /// For each column, its points: the value of the parameter, and the row.
    curves: Vec<(PageColumn<'r>, Vec<(f64, &'r Row)>)>,
}

/// Whether the section is on the page.
pub(super) fn has_any(columns: &[PageColumn<'_>]) -> bool {
    !scans(columns).is_empty()
}

/// The section; empty if no parameter was scanned.
pub(super) fn markup(columns: &[PageColumn<'_>]) -> Markup {
    let scans = scans(columns);
    let shown: Vec<&PageColumn<'_>> = columns
        .iter()
        .filter(|column| scans.iter().any(|scan| scan.has(column)))
        .collect();
    html! {
        @if !scans.is_empty() {
            section #scans aria-labelledby="scans-title" {
                h2 #scans-title { "Scans" }
                p.lead {
                    "How the cost of one operation grows with a parameter: the curve of a path that scales is flat. Each drawing "
                    "begins at zero and has its own vertical scale; the horizontal scale is logarithmic. A whisker is one robust "
                    "standard deviation of the runs to either side."
                }
                (legend(&shown))
                div.grid {
                    @for scan in &scans {
                        figure {
                            (scan.drawing())
                            figcaption { b { (scan.path) } " by " (scan.parameter) (scan.others) (scan.in_words()) }
                        }
                    }
                }
            }
        }
    }
}

/// The scans of all paths with two or more values of a parameter.
fn scans<'r>(columns: &[PageColumn<'r>]) -> Vec<ScanCurves<'r>> {
    let columns: Vec<PageColumn<'r>> = match columns.iter().find(|column| !column.is_emulated()) {
        Some(first) => columns
            .iter()
            .filter(|column| column.is_drawn_beside(first))
            .copied()
            .collect(),
        None => Vec::new(),
    };
    let all: Vec<PageLine<'r>> = PageSection::ALL
        .into_iter()
        .flat_map(|section| lines(section, &columns))
        .collect();
    let mut scans: Vec<ScanCurves<'r>> = Vec::new();
    let mut places: HashMap<(&str, &str, String), usize> = HashMap::new();
    for line in &all {
        let Some((path, _)) = line.name.split_once(PARAMETER) else {
            continue;
        };
        for (column, row) in line.cells(&columns) {
            for (parameter, value) in &row.parameters {
                let Ok(value) = value.parse::<f64>() else {
                    continue;
                };
                let others = others(row, parameter);
                let key = (path, parameter.as_str(), others.clone());
                let at = *places.entry(key).or_insert_with(|| {
                    let curves = columns.iter().map(|column| (*column, Vec::new())).collect();
                    scans.push(ScanCurves {
                        path,
                        parameter,
                        others,
                        curves,
                    });
                    scans.len() - 1
                });
                if let Some((_, points)) = scans[at]
                    .curves
                    .iter_mut()
                    .find(|(other, _)| other.place == column.place)
                {
                    points.push((value, row));
                }
            }
        }
    }
    for (_, points) in scans.iter_mut().flat_map(|scan| &mut scan.curves) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    scans.retain(|scan| scan.curves.iter().any(|(_, points)| points.len() > 1));
    scans
}

/// The values of all parameters except one, as `, vcpus=2`.
fn others(row: &Row, parameter: &str) -> String {
    let others = row.parameters.iter().filter(|(name, _)| *name != parameter);
    others
        .map(|(name, value)| format!(", {name}={value}"))
        .collect()
}

impl ScanCurves<'_> {
    fn has(&self, column: &PageColumn<'_>) -> bool {
        let mut curves = self.curves.iter();
        curves.any(|(other, points)| other.place == column.place && !points.is_empty())
    }

    fn timing(&self) -> Timing {
        self.curves
            .first()
            .map_or(Timing::Native, |(column, _)| column.report.timing)
    }

    /// The first and the last point of each curve, for readers who cannot see it.
    fn in_words(&self) -> String {
        let curve = |(column, points): &(PageColumn<'_>, Vec<(f64, &Row)>)| {
            let end = |point: Option<&(f64, &Row)>| {
                let (value, row) = point?;
                Some(format!("{} at {value}", column.median(row)?))
            };
            let (first, last) = (end(points.first())?, end(points.last())?);
            let mark = column
                .mark()
                .map_or_else(String::new, |mark| format!("{mark} "));
            Some(format!("{mark}{first}, {last}"))
        };
        let curves: Vec<String> = self.curves.iter().filter_map(curve).collect();
        format!(": {}", curves.join("; "))
    }

    fn drawing(&self) -> Markup {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let medians = points().filter_map(|(_, row)| row.median());
        let most = medians.fold(0.0, f64::max);
        let values: Vec<f64> = points().map(|(value, _)| *value).collect();
        let scale = ChartScale::Linear(most.max(f64::MIN_POSITIVE) * 1.15);
        let mut drawing = drawing(HEIGHT + 28);
        for (tick, _) in scale.ticks() {
            let y = height(HEIGHT, scale, tick);
            drawing = drawing.add(across("rule", LEFT, 100.0, y)).add(
                text("tick", LEFT - 1.5, y + 4, &label(tick, self.timing()))
                    .set("text-anchor", "end"),
            );
        }
        for value in values_of_ticks(&values) {
            let x = place(value, &values);
            drawing = drawing
                .add(upright("tick", x, HEIGHT + 8, HEIGHT + 12))
                .add(text("tick", x, HEIGHT + 25, &value.to_string()));
        }
        for (column, points) in &self.curves {
            drawing = curve(drawing, column, points, scale, &values);
        }
        drawn(&drawing)
    }
}

/// The values that have a label: the first, the last, and those between that are far enough apart.
fn values_of_ticks(values: &[f64]) -> Vec<f64> {
    const APART: f64 = 14.0;
    let distinct: BTreeSet<u64> = values.iter().map(|value| value.to_bits()).collect();
    let mut shown: Vec<f64> = Vec::new();
    for value in distinct.into_iter().map(f64::from_bits) {
        let x = place(value, values);
        if shown
            .iter()
            .all(|other| (place(*other, values) - x).abs() >= APART)
        {
            shown.push(value);
        }
    }
    shown
}

/// The horizontal position of a value of the parameter, in per cent, on a logarithmic scale.
fn place(value: f64, values: &[f64]) -> f64 {
    let log = |value: f64| value.max(1.0).ln();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let span = log(high) - log(low);
    let share = if span > 0.0 {
        (log(value) - log(low)) / span
    } else {
        0.5
    };
    LEFT + 2.0 + share * (RIGHT - LEFT - 2.0)
}

/// A curve with its points and whiskers: a drawing within the drawing, whose points are in per cent.
fn curve(
    drawing: SVG,
    column: &PageColumn<'_>,
    points: &[(f64, &Row)],
    scale: ChartScale,
    values: &[f64],
) -> SVG {
    let at = |(value, row): &(f64, &Row)| {
        Some((
            place(*value, values),
            row.median()?,
            row.times()
                .and_then(|times| times.spread)
                .unwrap_or_default(),
        ))
    };
    let points: Vec<(f64, f64, f64)> = points.iter().filter_map(at).collect();
    let pairs: Vec<String> = points
        .iter()
        .map(|(x, cost, _)| format!("{x:.2},{}", height(HEIGHT, scale, *cost)))
        .collect();
    let line = Polyline::new()
        .set("class", "curve")
        .set("points", pairs.join(" "));
    let inner = SVG::new()
        .set("class", column.class())
        .set("width", "100%")
        .set("height", HEIGHT + 28)
        .set("viewBox", format!("0 0 100 {}", HEIGHT + 28))
        .set("preserveAspectRatio", "none")
        .add(line);
    let mut drawing = drawing.add(inner);
    for (x, cost, spread) in points {
        let class = format!("median {}", column.class());
        let [low, high] =
            [1.0 - spread, 1.0 + spread].map(|share| height(HEIGHT, scale, cost * share));
        drawing = drawing.add(upright("whisker", x, high, low)).add(
            Circle::new()
                .set("class", class)
                .set("cx", percent(x))
                .set("cy", height(HEIGHT, scale, cost))
                .set("r", 3.5),
        );
    }
    drawing
}

#[cfg(test)]
#[path = "scans_test.rs"]
mod tests;
