//! The lab's own tests: they run here and boot by themselves.

use std::process::Command;

use anyhow::Result;

use super::stage::Counts;
use super::suites::{Suite, passed};
use crate::artifacts;
use crate::child;

/// How many of its boots are repeated on purpose, by the test of just that.
const RETRIES_ON_PURPOSE: usize = 1;

/// Runs them all.
pub(super) fn run(suite: &Suite) -> Result<(Counts, Vec<String>)> {
    // What boots say is counted, so nothing is captured.
    let child = child::run(
        Command::new(&suite.binary.path)
            .args(["--ignored", "--nocapture"])
            .current_dir(artifacts::root()),
    )?;
    let mut counts = Counts::of(&child);
    counts.passed = passed(&child.stdout).unwrap_or_default();
    let mut failures = Vec::new();
    if !child.status.success() || counts.passed != suite.tests {
        failures.push(format!("{} of {} tests passed", counts.passed, suite.tests));
    }
    counts.retries = counts.retries.saturating_sub(RETRIES_ON_PURPOSE);
    Ok((counts, failures))
}
