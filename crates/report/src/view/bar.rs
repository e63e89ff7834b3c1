//! The bars next to the terminal's tables: one for each median, all on one scale, so that tables can be compared.

use crate::{Report, TimeUnit, Timing, time_unit};

/// The maximum number of characters of a bar.
const WIDTH: usize = 12;

/// At this ratio of the largest to the smallest number, most bars would be too short on a linear scale.
const WIDE: f64 = 30.0;

/// Parts of a character, in eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The scale of all bars of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BarScale {
    /// From zero to this value.
    Linear(f64),
    /// From one power of ten to another: equal lengths are equal factors.
    Logarithmic(f64, f64),
}

impl BarScale {
    /// The scale for all medians of `report`; `None` if there is nothing to compare.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let medians = report.results.iter().filter_map(crate::Row::median);
        let above_zero: Vec<f64> = medians.filter(|median| *median > 0.0).collect();
        let low = above_zero.iter().copied().reduce(f64::min)?;
        let high = above_zero.iter().copied().reduce(f64::max)?;
        Some(if high <= WIDE * low {
            Self::Linear(high)
        } else {
            Self::Logarithmic(
                10_f64.powf(low.log10().floor()),
                10_f64.powf(high.log10().ceil()),
            )
        })
    }

    /// The scale in words: `0 to 8.23 µs`, `log 1 ns-1 ms`.
    pub(super) fn title(self, report: &Report, unit: Option<TimeUnit>) -> String {
        match self {
            Self::Linear(high) => format!("0 to {}", time_unit::measured(high, report, unit)),
            Self::Logarithmic(low, high) => {
                let round = |value| rounded(value, report.timing);
                format!("log {}-{}", round(low), round(high))
            }
        }
    }

    /// The bar of a number.
    pub(super) fn bar(self, ns: f64) -> String {
        let share = match self {
            Self::Linear(high) => ns / high,
            Self::Logarithmic(low, high) => (ns / low).ln() / (high / low).ln(),
        };
        let eighths = eighths(share);
        "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
    }
}

/// The length of a bar; any measured value has at least an eighth of a character.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "at most the width of a bar"
)]
fn eighths(share: f64) -> usize {
    let most = (WIDTH * 8) as f64;
    (share.clamp(0.0, 1.0) * most).round().max(1.0) as usize
}

/// A power of ten with a unit that fits, without digits after the point.
fn rounded(value: f64, timing: Timing) -> String {
    if timing == Timing::Instructions {
        return format!("{value}");
    }
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let (factor, name) = units
        .into_iter()
        .find(|(factor, _)| value >= factor * 0.999)
        .unwrap_or((1e-3, "ps"));
    format!("{:.0} {name}", value / factor)
}

#[cfg(test)]
#[path = "bar_test.rs"]
mod tests;
