//! Runs the lab's own tests, which run on this host and boot the lab themselves.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::stage::StageCounts;
use super::suites::{Suite, passed};
use crate::artifacts;
use crate::child;

/// How many boots are repeated on purpose, by the tests of a panic and, with a QEMU older than 9.1, of an oops.
pub(super) const RETRIES_ON_PURPOSE: usize = 2;

/// Runs all of these tests, of which some boot again on purpose; `arm64` is the `vmbell` for boots of that architecture.
pub(super) fn run(
    suite: &Suite,
    retries_on_purpose: usize,
    arm64: Option<&Path>,
) -> Result<(StageCounts, Vec<String>)> {
    let mut command = Command::new(&suite.binary.path);
    if let Some(vmbell) = arm64 {
        command.env("VMBELL_AARCH64", vmbell);
    }
    // The messages of the boots are counted, so the output of tests is not captured.
    let child = child::run(
        command
            .args(["--ignored", "--nocapture"])
            .current_dir(artifacts::root()),
    )?;
    let mut counts = StageCounts::of(&child);
    counts.passed = passed(&child.stdout).unwrap_or_default();
    let mut failures = Vec::new();
    if !child.status.success() || counts.passed != suite.tests {
        failures.push(format!("{} of {} tests passed", counts.passed, suite.tests));
    }
    counts.retries = counts.retries.saturating_sub(retries_on_purpose);
    Ok((counts, failures))
}
