//! The report as kvm-unit-tests' `vmexit` prints it, `name cycles`, for scripts that diff that.

use std::fmt::Write;

use super::Report;

/// Writes one line for each measured entry: its name and its median in cycles of the time stamp
/// counter.
pub fn vmexit(report: &Report) -> String {
    let mut text = String::new();
    for outcome in &report.results {
        if let Some(median) = outcome.median {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {:.0}", outcome.command, median * report.tsc.hz);
        }
    }
    text
}
