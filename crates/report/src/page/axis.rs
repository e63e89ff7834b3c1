//! The axis of a chart: its labels, and above them the letters of the floors.

use maud::Markup;

use super::draw::{drawing, markup, text, upright};
use super::scale::ChartScale;
use crate::{Timing, units};

/// The minimum distance between letters that fit next to each other on a phone, in per cent.
const GAP: f64 = 5.0;

/// The height of a line of text, in pixels.
const LINE: u32 = 15;

/// The axis, with a letter at each of `floors`.
pub(super) fn axis(scale: ChartScale, timing: Timing, floors: &[(String, f64)]) -> Markup {
    let places: Vec<f64> = floors.iter().map(|(_, at)| scale.place(*at)).collect();
    let lanes = lanes(&places);
    let above = LINE * lanes.iter().copied().max().map_or(0, |lane| lane + 1);
    let mut drawing = drawing(above + LINE + 6);
    for (((letter, _), place), lane) in floors.iter().zip(places).zip(lanes) {
        let y = LINE * (lane + 1) - 3;
        drawing = drawing
            .add(upright("floor", place, y + 2, above + LINE + 6))
            .add(text("letter", place, y, letter));
    }
    for (tick, has_label) in scale.ticks() {
        let place = scale.place(tick);
        drawing = drawing.add(upright("tick", place, above + LINE, above + LINE + 6));
        if !has_label {
            continue;
        }
        let text = text("tick", place, above + LINE - 3, &label(tick, timing));
        drawing = drawing.add(text);
    }
    markup(&drawing)
}

/// The value of a tick as text, without trailing zeros.
pub(super) fn label(value: f64, timing: Timing) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = units::measured(value, timing);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// For each place, the lowest line in which no earlier letter is too close.
fn lanes(places: &[f64]) -> Vec<u32> {
    let mut lanes: Vec<u32> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let is_free = |lane: &u32| {
            let earlier = lanes.iter().zip(&places[..at]);
            let mut close = earlier.filter(|(_, other)| (place - **other).abs() < GAP);
            close.all(|(other, _)| other != lane)
        };
        lanes.push((0..).find(is_free).unwrap_or_default());
    }
    lanes
}

#[cfg(test)]
#[path = "axis_test.rs"]
mod tests;
