//! Draws the paths between a guest and its host as one picture (SVG): an arrow for each, with its cost in a report.
//!
//! The picture needs nothing else: no font, no script, no network. It has its own background, so that it is readable on
//! any page, light or dark. [`arrows`] says what is shown, `draw` how.

mod arrows;
mod draw;

use self::arrows::{Arrow, GROUPS};
use self::draw::{Caption, Costs, draw};
use super::{Report, Timing, units};
use crate::text::{shortened, visible};

/// The maximum width of a line of text above the picture, in cells.
const WIDEST: usize = 108;

/// Why a report has no diagram.
#[derive(Debug, thiserror::Error)]
pub enum DiagramError {
    /// The report is from a different suite.
    #[error("the diagram is of vmbell bench, and this report is of vmbell bench {suite}")]
    Suite {
        /// The report's suite.
        suite: &'static str,
    },
    /// The times are from an emulator.
    #[error(
        "its times are those of an emulated CPU, which say nothing about hardware: count instructions \
         (vmbell lab --deterministic)"
    )]
    Emulated,
    /// No row of the diagram was measured.
    #[error(
        "no path of the diagram was measured, such as portio-no-eventfd: use vmbell bench --all"
    )]
    Rows,
}

/// Draws the paths that `report` has measured, as SVG; a path that was not measured is left out.
///
/// If there are several backends, it shows the first one that runs the guest's kernel mode on the CPU.
///
/// # Errors
/// [`DiagramError`] if the report is from a different suite, has no row to draw, or has times of an emulated CPU.
pub fn diagram(report: &Report) -> Result<String, DiagramError> {
    if report.paths().is_none() {
        let suite = report.kind.name();
        return Err(DiagramError::Suite { suite });
    }
    if report.timing == Timing::Emulated {
        return Err(DiagramError::Emulated);
    }
    let mut backends: Vec<&str> = report
        .backends
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    backends.sort_by_key(|name| report.emulates_kernel_mode(name));
    let mut all = backends.into_iter().map(|name| (name, costs(report, name)));
    let (backend, costs) = all
        .find(|(_, costs)| !costs.is_empty())
        .ok_or(DiagramError::Rows)?;
    let picture = draw(&caption(report, backend), &costs).to_string();
    let lines = picture.lines().map(visible);
    Ok(lines.map(|line| line + "\n").collect())
}

/// The arrows that were measured on this backend, group by group, each with its cost.
fn costs(report: &Report, backend: &str) -> Costs {
    let of = |arrow: &'static Arrow| Some((arrow, cost(report, backend, arrow.row)?));
    let groups = GROUPS.iter();
    let groups = groups.map(|group| (group, group.arrows.iter().filter_map(of).collect()));
    groups
        .filter(|(_, arrows): &(_, Vec<_>)| !arrows.is_empty())
        .collect()
}

/// The median of a row in words: `3,737 instructions`, `3.09 µs`, `<1.00 ns`.
fn cost(report: &Report, backend: &str, name: &str) -> Option<String> {
    let mut rows = report.results.iter();
    let row = rows.find(|row| row.command == name && row.backend == backend && row.is_ok())?;
    let bound = row.bound();
    let median = bound.or(row.median())?;
    let below = bound.map_or("", |_| "<");
    Some(match report.timing {
        Timing::Instructions => format!("{below}{} instructions", grouped(median)),
        Timing::Native | Timing::Emulated => format!("{below}{}", units::time(median)),
    })
}

/// A number with a thousands separator: `3,737`; below 10 with its fraction: `9.74`, `8`.
fn grouped(number: f64) -> String {
    if number < 10.0 {
        return units::per_op(number);
    }
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The text above the arrows.
fn caption(report: &Report, backend: &str) -> Caption {
    let what = match report.timing {
        Timing::Instructions => {
            "Instructions for one operation in the deterministic lab: guest, kernel and VMM together"
        }
        Timing::Native | Timing::Emulated => "Median time of one operation",
    };
    let Report { host, tool, .. } = report;
    let mut made = format!(
        "{}, {}, {} {}",
        host.kernel, host.cpu, tool.name, tool.version
    );
    // The deterministic lab always starts on the same day, so the date is left out.
    if report.timing == Timing::Native {
        let day = report.started.split('T').next().unwrap_or_default();
        made += &format!(", {day}");
    }
    Caption {
        what,
        made: shortened(&made, WIDEST),
        kernel: match backend {
            "kvm" => ["KVM", "host kernel"],
            _ => ["usermode", "in KVM's place"],
        },
    }
}

#[cfg(test)]
#[path = "diagram_test.rs"]
mod tests;
