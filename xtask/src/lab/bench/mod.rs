//! Measures all rows on KVM in deterministic mode. No row may hang or fail, or be skipped without a valid reason; the
//! exit counts of the main rows must be exact; and the instructions that our run loop needs in addition to a bare loop
//! must stay below a limit.

mod checks;
mod expected;

use anyhow::{Context, Result};
use vmbell_report::{Report, Row, Status};

use super::LabLauncher;
use super::stage::StageCounts;
use crate::child;
use checks::failures;
use expected::Expected;
pub(super) use expected::{AARCH64, X86_64};

/// The reason of a failed row whose guest took an interrupt twice. Under QEMU's emulated SVM a vCPU does that about
/// once in 100,000 interrupts, for irqfds and messages alike. The row is measured again in a separate boot, and each
/// repetition counts as a retry.
const TWICE: &str = "it took one twice";

/// How often a row is measured again. Each time the program starts at a different phase of the timer: at the same
/// phase, it would execute the same instructions.
const MOST_RETRIES: u32 = 3;

/// Measures all rows in one boot, and checks the report.
pub(super) fn run(
    launcher: LabLauncher<'_>,
    expected: &Expected,
) -> Result<(StageCounts, Vec<String>)> {
    let (mut counts, mut report) = measure(launcher, expected.device, &[], None)?;
    for seed in 1..=MOST_RETRIES {
        let twice = took_one_twice(&report);
        if twice.is_empty() {
            break;
        }
        println!("retry: bench: {}: {TWICE}", twice.join(", "));
        let (again, second) = measure(launcher, expected.device, &twice, Some(seed))?;
        counts.boots += again.boots;
        counts.retries += again.retries + twice.len();
        replace(&mut report, second);
    }
    let failures = failures(&report, expected);
    let measured = report.results.iter().filter(|row| row.is_ok());
    counts.passed = measured.count().saturating_sub(failures.len());
    Ok((counts, failures))
}

/// Returns the rows whose guest took an interrupt twice.
fn took_one_twice(report: &Report) -> Vec<String> {
    let failed_so = |row: &&Row| {
        row.status() == Status::Failed && row.reason().unwrap_or_default().contains(TWICE)
    };
    let rows = report.results.iter().filter(failed_so);
    rows.map(|row| row.command.clone()).collect()
}

/// Measures these rows, or all if none are named, in one boot with this seed of the lab. A failed row makes the command
/// fail, but the report is still written.
fn measure(
    launcher: LabLauncher<'_>,
    device: &str,
    names: &[String],
    seed: Option<u32>,
) -> Result<(StageCounts, Report)> {
    let folder = tempfile::tempdir().context("cannot make a folder for the report")?;
    let path = folder.path().join("kvm.json");
    // The lab adds devices only for rows that `bench` names, not for all. Only a hang takes as long as the limits.
    let mut command = launcher.lab(&["--deterministic", "--device", device]);
    command.args(["--timeout", "1h", "--boot-timeout", "1h", "--retries", "1"]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    command
        .args(["--", "vmbell", "bench", "--export-json"])
        .arg(&path);
    match names {
        [] => command.arg("--all"),
        names => command.arg("--only").args(names),
    };
    let child = child::run(&mut command)?;
    let name = match seed {
        None => format!("bench-{device}"),
        Some(seed) => format!("bench-{device}-seed-{seed}"),
    };
    let counts = StageCounts::told(&child, &name, 0)?;
    let status = child.status;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("the bench left no report: {status}"))?;
    let report = vmbell_report::parse(&text).context("cannot read the report")?;
    Ok((counts, report))
}

/// Replaces rows by those of `second` with the same name.
fn replace(report: &mut Report, second: Report) {
    for row in second.results {
        if let Some(old) = report
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
    fn a_row_whose_guest_took_an_interrupt_twice_counts_as_it_was_measured_again() {
        let mut first = good_report(&X86_64);
        let rows = &mut first.results;
        let reason = "the guest ended before its interrupts: it took one twice, or";
        rows[7].outcome = Outcome::Failed {
            reason: Some(reason.to_owned()),
        };
        let name = rows[7].command.clone();
        assert_eq!(took_one_twice(&first), [name]);
        let mut second = good_report(&X86_64);
        second.results.drain(..7);
        replace(&mut first, second);
        assert_eq!(took_one_twice(&first), Vec::<String>::new());
        assert_eq!(failures(&first, &X86_64), Vec::<String>::new());
    }
}
