//! Measures all rows on KVM in deterministic mode. No row may hang or fail, or be skipped without one
//! of two good reasons; the exit counts of the main rows must be exact; and the instructions that our
//! run loop adds to a bare one must stay below a limit.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use vmbell_report::{Report, Row, Status, Timing};

use super::stage::StageCounts;
use crate::artifacts;
use crate::child;

/// A row, and how many of its exits reach the VMM for each operation.
type Expected = (&'static str, f64);

const ROWS: &[Expected] = &[
    ("portio-no-eventfd", 1.0),
    ("portio-wildcard-eventfd", 0.0),
    ("portio-datamatch-eventfd", 0.0),
    ("mmio-no-eventfd", 1.0),
    ("mmio-wildcard-eventfd", 0.0),
    ("mmio-datamatch-eventfd", 0.0),
    ("mmio-any-length-eventfd", 0.0),
];

/// The same for rows with an assigned device. Interrupts of the host are no exits, so such a row may have none. Left out
/// is passthrough-intx-userspace, with three exits or a few more: when the VMM sees the handler's first access, it unmasks
/// a line that is still up, and how soon its thread hears of that decides whether the guest takes a spurious interrupt.
const ASSIGNED: &[Expected] = &[
    ("passthrough-intx-irqfd", 0.0),
    ("passthrough-msi-irqfd", 0.0),
    ("passthrough-msi-userspace", 0.0),
    ("passthrough-mmio-mapped", 0.0),
    ("passthrough-mmio-mapped+store", 0.0),
    ("passthrough-mmio-emulated", 1.0),
    ("passthrough-mmio-emulated+store", 1.0),
];

/// The row of a device model, and the row of the bare loop around `KVM_RUN` with the same exit.
const FLOORS: [(&str, &str); 2] = [
    ("portio-no-eventfd", "floor-kvm-run-pio"),
    ("mmio-no-eventfd", "floor-kvm-run-mmio"),
];

/// How many instructions a row may have more than its floor. The goal is 250; another compiler changes
/// either number by a few per cent.
const OVERHEAD: f64 = 350.0;

/// The reasons for which a row may be skipped: what one CPU, or KVM, cannot do.
const GOOD_SKIPS: [&str; 3] = [
    "needs two CPUs",
    "ioeventfds on ports and memory only",
    "no other way for a device of a vmm",
];

/// Why a row failed whose guest took an interrupt twice. Under QEMU's emulated SVM a vCPU does that about once
/// in 100,000 interrupts, by irqfd and by message alike. Such a row is measured a second time in a boot of its
/// own, and counted as a retry.
const TWICE: &str = "it took one twice";

/// Measures in one boot, and checks the report.
pub(super) fn run(vmbell: &Path) -> Result<(StageCounts, Vec<String>)> {
    let (mut counts, mut report) = measure(vmbell, &[])?;
    let twice: Vec<String> = report
        .results
        .iter()
        .filter(|row| took_one_twice(row))
        .map(|row| row.command.clone())
        .collect();
    if !twice.is_empty() {
        let (again, second) = measure(vmbell, &twice)?;
        counts.boots += again.boots;
        counts.retries += again.retries + twice.len();
        replace(&mut report, second);
    }
    let failures = failures(&report);
    let measured = report.results.iter().filter(|row| row.is_ok());
    counts.passed = measured.count().saturating_sub(failures.len());
    Ok((counts, failures))
}

fn took_one_twice(row: &Row) -> bool {
    let reason = row.reason.as_deref().unwrap_or_default();
    row.status == Status::Failed && reason.contains(TWICE)
}

/// Measures these rows, or all if there are none, in one boot. A row that failed makes the command fail, but it
/// leaves its report.
fn measure(vmbell: &Path, names: &[String]) -> Result<(StageCounts, Report)> {
    let folder = tempfile::tempdir().context("cannot make a folder for the report")?;
    let path = folder.path().join("kvm.json");
    let mut command = Command::new(vmbell);
    command.args(["lab", "bench", "--deterministic", "--backend", "kvm"]);
    // Without names the lab plugs in no device. All rows take 80 s of CPU, which a busy host may not give in 5 minutes.
    command.args(["--device", "edu", "--timeout", "8m"]);
    if !names.is_empty() {
        command.arg("--only").args(names);
    }
    command.arg("--export-json").arg(&path);
    let child = child::run(command.current_dir(artifacts::root()))?;
    let counts = StageCounts::of(&child);
    let status = child.status;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("the bench left no report: {status}"))?;
    let report = vmbell_report::parse(&text).context("cannot read the report")?;
    Ok((counts, report))
}

/// Puts the rows of `second` in the place of those of the same name.
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

fn failures(report: &Report) -> Vec<String> {
    let mut failures = Vec::new();
    if report.timing != Timing::Instructions {
        failures.push(format!("timing is {:?}", report.timing));
    }
    if report.backend.emulates_kernel_mode {
        failures.push("kvm emulates the guest's kernel mode".to_owned());
    }
    let exact = || {
        let rows = ROWS.iter().map(|row| (row, 1.0));
        rows.chain(ASSIGNED.iter().map(|row| (row, 0.0)))
    };
    let is_main = |row: &Row| exact().any(|((name, _), _)| *name == row.command);
    let skipped = |row: &&Row| row.status == Status::Skipped && !is_main(row);
    for row in report.results.iter().filter(skipped) {
        let reason = row.reason.as_deref().unwrap_or("no reason given");
        if !GOOD_SKIPS.iter().any(|good| reason.contains(good)) {
            failures.push(format!("{} was skipped: {reason}", row.command));
        }
    }
    let failed = |row: &&Row| row.status == Status::Failed && !is_main(row);
    for row in report.results.iter().filter(failed) {
        let reason = row.reason.as_deref().unwrap_or("no reason given");
        failures.push(format!("{} failed: {reason}", row.command));
    }
    for ((name, userspace), least) in exact() {
        let row = report.results.iter().find(|row| row.command == *name);
        if let Some(reason) = row.map_or(Some("is missing".to_owned()), |row| {
            fault(row, *userspace, least)
        }) {
            failures.push(format!("{name} {reason}"));
        }
    }
    for (name, floor) in FLOORS {
        let instructions = |name: &str| {
            let row = report.results.iter().find(|row| row.command == name)?;
            row.instructions
        };
        match (instructions(name), instructions(floor)) {
            (Some(row), Some(bare)) if row - bare <= OVERHEAD => {}
            (row, bare) => failures.push(format!(
                "{name} has {row:?} instructions, its floor {bare:?}: at most {OVERHEAD} more are good"
            )),
        }
    }
    failures
}

/// What is wrong with a row, which has to have at least `least` exits for each operation; `None` if nothing is.
#[expect(clippy::float_cmp, reason = "counts divided by counts: equal or wrong")]
fn fault(row: &Row, userspace: f64, least: f64) -> Option<String> {
    if !row.is_ok() {
        let reason = row.reason.as_deref().unwrap_or("no reason given");
        return Some(format!("{}: {reason}", row.status.name()));
    }
    let Some(exits) = &row.exits else {
        return Some("has no exit counts".to_owned());
    };
    if exits.heavy != userspace {
        return Some(format!(
            "has {} heavy exits for each operation instead of {userspace}",
            exits.heavy
        ));
    }
    let Some(light) = exits.light else {
        return Some("has no count of light exits".to_owned());
    };
    let total = light + exits.heavy;
    if total < least {
        return Some(format!("has {total} exits for each operation"));
    }
    match row.instructions {
        Some(count) if count > 0.0 => None,
        _ => Some("has no count of instructions".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmbell_report::Exits;

    /// A stored report with the rows that are checked.
    fn report() -> Report {
        let oldest = include_str!("../../../crates/report/tests/data/report-v1.json");
        let oldest = vmbell_report::parse(oldest).unwrap();
        let row = |name: &str, exits| Row {
            command: name.to_owned(),
            status: Status::Ok,
            reason: None,
            instructions: Some(2985.0),
            exits,
            ..oldest.results[0].clone()
        };
        let counted = |(name, heavy): &Expected, light| {
            let (light, heavy) = (Some(light), *heavy);
            row(name, Some(Exits { light, heavy }))
        };
        let rows = ROWS.iter().map(|row| counted(row, 1.0 - row.1));
        let floors = FLOORS.iter().map(|(_, floor)| row(floor, None));
        let assigned = ASSIGNED.iter().map(|row| counted(row, 0.0));
        Report {
            timing: Timing::Instructions,
            results: rows.chain(floors).chain(assigned).collect(),
            ..oldest.clone()
        }
    }

    #[test]
    fn a_good_report_has_no_fault() {
        assert_eq!(failures(&report()), Vec::<String>::new());
    }

    #[test]
    fn each_fault_is_found() {
        type Spoil = fn(&mut Report);
        let cases: [(Spoil, &str); 13] = [
            (
                |report| report.results[7].status = Status::Skipped,
                "floor-kvm-run-pio was skipped: no reason given",
            ),
            (
                |report| report.results[7].status = Status::Failed,
                "floor-kvm-run-pio failed: no reason given",
            ),
            (|report| report.timing = Timing::Native, "timing is Native"),
            (
                |report| report.backend.emulates_kernel_mode = true,
                "kvm emulates the guest's kernel mode",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().heavy = 0.0005,
                "portio-wildcard-eventfd has 0.0005 heavy exits for each operation instead of 0",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().light = Some(0.5),
                "portio-wildcard-eventfd has 0.5 exits for each operation",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().light = None,
                "portio-wildcard-eventfd has no count of light exits",
            ),
            (
                |report| report.results[1].instructions = None,
                "portio-wildcard-eventfd has no count of instructions",
            ),
            (
                |report| report.results[1].status = Status::Skipped,
                "portio-wildcard-eventfd skipped: no reason given",
            ),
            (
                |report| report.results[0].instructions = Some(4000.0),
                "portio-no-eventfd has Some(4000.0) instructions, its floor Some(2985.0): at most 350 more are good",
            ),
            (
                |report| drop(report.results.remove(8)),
                "mmio-no-eventfd has Some(2985.0) instructions, its floor None: at most 350 more are good",
            ),
            (
                |report| report.results[9].exits.as_mut().unwrap().heavy = 0.0005,
                "passthrough-intx-irqfd has 0.0005 heavy exits for each operation instead of 0",
            ),
            (
                |report| drop(report.results.remove(1)),
                "portio-wildcard-eventfd is missing",
            ),
        ];
        for (spoil, fault) in cases {
            let mut report = report();
            spoil(&mut report);
            assert_eq!(failures(&report), [fault]);
        }
    }

    #[test]
    fn a_row_whose_guest_took_an_interrupt_twice_counts_as_it_was_measured_again() {
        let mut first = report();
        let row = &mut first.results[7];
        row.status = Status::Failed;
        row.reason =
            Some("the guest ended before its interrupts: it took one twice, or".to_owned());
        assert!(took_one_twice(&first.results[7]) && !took_one_twice(&first.results[0]));
        let mut second = report();
        second.results.drain(..7);
        replace(&mut first, second);
        assert_eq!(failures(&first), Vec::<String>::new());
    }
}
