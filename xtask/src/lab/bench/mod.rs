//! Measures all rows on KVM in deterministic mode. No row may hang or fail twice, or be skipped without one
//! of two good reasons; the exit counts of the main rows must be exact; and the instructions that our
//! run loop adds to a bare one must stay below a limit.

mod checks;
mod expected;

use anyhow::{Context, Result};
use vmbell_report::{Report, Row, Status};

use super::Launcher;
use super::stage::StageCounts;
use crate::child;
use checks::failures;
use expected::Expected;
pub(super) use expected::{AARCH64, X86_64};

/// Why a row failed whose guest took an interrupt twice, or never. Under QEMU's emulated SVM a vCPU takes one twice about once
/// in 100,000 interrupts, by irqfd and by message alike; a guest that waits for one may hang. Such a row is measured a second
/// time in a boot of its own, and counted as a retry.
const EMULATION: [&str; 2] = ["it took one twice", "one run took longer than"];

/// Measures in one boot, and checks the report.
pub(super) fn run(
    launcher: Launcher<'_>,
    expected: &Expected,
) -> Result<(StageCounts, Vec<String>)> {
    let (mut counts, mut report) = measure(launcher, expected.device, &[])?;
    let suspects: Vec<String> = report
        .common
        .results
        .iter()
        .filter(|row| may_be_emulation(row))
        .map(|row| row.command.clone())
        .collect();
    if !suspects.is_empty() {
        let (again, second) = measure(launcher, expected.device, &suspects)?;
        counts.boots += again.boots;
        counts.retries += again.retries + suspects.len();
        replace(&mut report, second);
    }
    let failures = failures(&report, expected);
    let measured = report.common.results.iter().filter(|row| row.is_ok());
    counts.passed = measured.count().saturating_sub(failures.len());
    Ok((counts, failures))
}

fn may_be_emulation(row: &Row) -> bool {
    let reason = row.reason().unwrap_or_default();
    row.status() == Status::Failed && EMULATION.iter().any(|words| reason.contains(words))
}

/// Measures these rows, or all if there are none, in one boot. A row that failed makes the command fail, but it
/// leaves its report.
fn measure(
    launcher: Launcher<'_>,
    device: &str,
    names: &[String],
) -> Result<(StageCounts, Report)> {
    let folder = tempfile::tempdir().context("cannot make a folder for the report")?;
    let path = folder.path().join("kvm.json");
    // Without names the lab plugs in no device. Only a hang takes as long as the limits.
    let mut command = launcher.lab(&["--deterministic", "--device", device]);
    command.args(["--timeout", "1h", "--boot-timeout", "1h"]);
    command
        .args(["--", "vmbell", "bench", "--export-json"])
        .arg(&path);
    match names {
        [] => command.arg("--all"),
        names => command.arg("--only").args(names),
    };
    let child = child::run(&mut command)?;
    let counts = StageCounts::of(&child);
    let status = child.status;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("the bench left no report: {status}"))?;
    let report = vmbell_report::parse(&text).context("cannot read the report")?;
    Ok((counts, report))
}

/// Puts the rows of `second` in the place of those of the same name.
fn replace(report: &mut Report, second: Report) {
    for row in second.common.results {
        if let Some(old) = report
            .common
            .results
            .iter_mut()
            .find(|old| old.command == row.command)
        {
            *old = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checks::good_report;
    use vmbell_report::Outcome;

    #[test]
    fn a_row_whose_guest_took_an_interrupt_twice_or_never_counts_as_it_was_measured_again() {
        for reason in [
            "the guest ended before its interrupts: it took one twice, or",
            "one run took longer than 60s: allow more",
        ] {
            let mut first = good_report(&X86_64);
            let rows = &mut first.common.results;
            rows[7].outcome = Outcome::Failed(Some(reason.to_owned()));
            assert!(may_be_emulation(&rows[7]) && !may_be_emulation(&rows[0]));
            assert!(!failures(&first, &X86_64).is_empty());
            let mut second = good_report(&X86_64);
            second.common.results.drain(..7);
            replace(&mut first, second);
            assert_eq!(failures(&first, &X86_64), Vec::<String>::new());
        }
    }
}
