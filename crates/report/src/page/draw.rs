//! Draws single rows as SVG. Horizontal lengths are in per cent, and colours are CSS classes.
//!
//! No drawing is scaled: its text and its lines have the same size on a phone and in a wide window. The text next to a
//! drawing says what it shows, so the drawing is hidden from screen readers.

use maud::{Markup, PreEscaped};
use svg::node::element::{Circle, Line, Rectangle, SVG, Text};

use super::scale::ChartScale;

/// The height of the drawing of one row, in pixels.
const HEIGHT: u32 = 18;

/// An empty drawing of this height, as wide as its parent element.
pub(super) fn drawing(height: u32) -> SVG {
    SVG::new()
        .set("width", "100%")
        .set("height", height)
        .set("aria-hidden", "true")
        .set("focusable", "false")
}

/// The drawing as part of the page. `svg` has escaped its texts and attributes.
pub(super) fn markup(drawing: &SVG) -> Markup {
    PreEscaped(drawing.to_string())
}

/// A horizontal length or position, in per cent.
pub(super) fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

/// A horizontal line from `from` to `to`, both in per cent.
pub(super) fn across(class: &str, from: f64, to: f64, y: u32) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", percent(from))
        .set("x2", percent(to))
        .set("y1", y)
        .set("y2", y)
}

/// A vertical line.
pub(super) fn upright(class: &str, place: f64, from: u32, to: u32) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", percent(place))
        .set("x2", percent(place))
        .set("y1", from)
        .set("y2", to)
}

/// A text that is centred at `place`, or that starts there if it is at the drawing's left edge.
pub(super) fn text(class: &str, place: f64, y: u32, content: &str) -> Text {
    // There is always room at the right edge.
    let anchor = if place < 4.0 { "start" } else { "middle" };
    Text::new(content)
        .set("class", class)
        .set("x", percent(place))
        .set("y", y)
        .set("text-anchor", anchor)
}

/// A row's median, and how much its runs scatter around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) median: f64,
    /// The ends of the whisker.
    pub(super) whisker: Option<[f64; 2]>,
    /// Whether the median is only known to be below this value.
    pub(super) is_bound: bool,
}

/// A dot at the median with its whisker, in front of the floors' positions. A bar leads to the dot, except on a logarithmic
/// axis: it has no zero, so the length of a bar would mean nothing there.
pub(super) fn row(scale: ChartScale, mark: Mark, floors: &[f64]) -> Markup {
    let middle = HEIGHT / 2;
    let mut drawing = drawing(HEIGHT);
    let length = scale.place(mark.median);
    match scale {
        ChartScale::Linear(_) => {
            let class = if mark.is_bound { "bar bound" } else { "bar" };
            drawing = drawing.add(
                Rectangle::new()
                    .set("class", class)
                    .set("x", 0)
                    .set("y", 3)
                    .set("width", percent(length))
                    .set("height", HEIGHT - 6),
            );
        }
        // Anywhere to the left of the dot.
        ChartScale::Logarithmic(..) if mark.is_bound => {
            drawing = drawing.add(across("whisker", 0.0, length, middle));
        }
        ChartScale::Logarithmic(..) => {}
    }
    for floor in floors {
        drawing = drawing.add(upright("floor", scale.place(*floor), 0, HEIGHT));
    }
    if let Some(ends) = mark.whisker {
        let [low, high] = ends.map(|end| scale.place(end));
        drawing = drawing
            .add(across("whisker", low, high, middle))
            .add(upright("whisker", low, middle - 4, middle + 4))
            .add(upright("whisker", high, middle - 4, middle + 4));
    }
    markup(
        &drawing.add(
            Circle::new()
                .set("class", "median")
                .set("cx", percent(length))
                .set("cy", middle)
                .set("r", 3),
        ),
    )
}

/// Two amounts as adjacent bars, starting at zero.
pub(super) fn stack(most: f64, amounts: [(&str, f64); 2]) -> Markup {
    let mut drawing = drawing(HEIGHT - 4);
    let mut from = 0.0;
    for (class, amount) in amounts {
        let length = amount / most * 100.0;
        drawing = drawing.add(
            Rectangle::new()
                .set("class", class)
                .set("x", percent(from))
                .set("y", 2)
                .set("width", percent(length))
                .set("height", HEIGHT - 8),
        );
        from += length;
    }
    markup(&drawing)
}

/// The distance of a value from the top of a curve of this height, in pixels.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the height of a drawing"
)]
pub(super) fn height(curve: u32, scale: ChartScale, value: f64) -> u32 {
    let share = 1.0 - scale.place(value) / 100.0;
    (8.0 + share * f64::from(curve)).round() as u32
}
