//! The report as kvm-unit-tests' `vmexit` prints it, and what that prints, for scripts that compare
//! the two: `name cycles`, one a line.

use std::fmt::Write;

use super::Report;
use super::model::Outcome;
use crate::bench::{Group, Status};

/// One line of `vmexit`, ours or theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmexitRow {
    /// What was measured.
    pub name: String,
    /// The part of it that the line is about: `ipi` or `eoi`; none for all of it.
    pub part: Option<String>,
    /// Ticks of the time stamp counter for one operation; none if it was skipped.
    pub cycles: Option<u64>,
}

/// Writes one line for each entry: its name and its median in cycles of the time stamp counter, or
/// why there is none. Doorbells have the suffix of the `pci-testdev` BAR that they stand for.
pub fn vmexit(report: &Report) -> String {
    let mut text = String::new();
    for outcome in &report.results {
        let (name, suffix) = (&outcome.command, bar(outcome));
        // Writing to a String cannot fail.
        let _ = match (outcome.median, outcome.status) {
            (Some(median), _) => writeln!(text, "{name}{suffix} {:.0}", median * report.tsc.hz),
            (None, Status::Skipped) => writeln!(text, "{name}{suffix} (skipped)"),
            (None, _) => writeln!(text, "{name}{suffix} (failed)"),
        };
    }
    text
}

/// Reads the lines of an output that are rows, in their order. `vmexit` prints others, about the
/// machine, which are passed over; so is a row of ours that failed, which has no number.
pub fn parse_vmexit(text: &str) -> Vec<VmexitRow> {
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<VmexitRow> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (part, name, value) = match words[..] {
        [name, value] => (None, name, value),
        [part @ ("ipi" | "eoi"), name, value] => (Some(part.to_owned()), name, value),
        _ => return None,
    };
    let cycles = match value {
        "(skipped)" => None,
        number => Some(number.parse().ok()?),
    };
    Some(VmexitRow {
        name: name.to_owned(),
        part,
        cycles,
    })
}

/// `:pci-mem` for a doorbell in memory, `:pci-io` for one on a port.
fn bar(outcome: &Outcome) -> &'static str {
    if outcome.group != Group::Scenario {
        ""
    } else if outcome.command.starts_with("mmio-") {
        ":pci-mem"
    } else if outcome.command.starts_with("portio-") {
        ":pci-io"
    } else {
        ""
    }
}

#[cfg(test)]
#[path = "vmexit_test.rs"]
mod tests;
