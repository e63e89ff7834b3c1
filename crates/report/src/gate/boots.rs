//! Merges the boots of a gate into one report, in which each run of a row is a boot. It is the baseline of later gates.
//!
//! A boot gives a row one number of each kind, its median over batches, so that the runs show how much a figure varies
//! by chance. Exits and their reasons are events of the row, so that each boot has its own numbers.

use std::collections::BTreeMap;

use super::figures::{EXITS, TO_VMM, float, of_operation};
use crate::units::thousandths;
use crate::{Counts, Exits, Kind, Measured, Outcome, Planned, Report, Row, Times};
use vmbell_statistics::median;

/// Merges boots on one kernel into one report, with rows sorted by name; `None` without boots.
pub fn merged(boots: &[Report]) -> Option<Report> {
    let first = boots.first()?;
    let mut rows: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in boots.iter().flat_map(|boot| &boot.results) {
        let key = (row.backend.as_str(), row.command.as_str());
        rows.entry(key).or_default().push(row);
    }
    let mut vmms = first.vmms().to_vec();
    for vmm in &mut vmms {
        let all = boots.iter().flat_map(Report::vmms);
        let same: Vec<_> = all.filter(|other| other.name == vmm.name).collect();
        vmm.boots = same.iter().map(|other| other.boots).sum();
        vmm.version = same.iter().find_map(|other| other.version.clone());
        // The path differs between checkouts.
        vmm.program = None;
    }
    let runs = u32::try_from(boots.len()).unwrap_or(u32::MAX);
    let ops = first.plan.ops;
    Some(Report {
        kind: Kind::Vmms { vmms },
        duration: boots.iter().map(|boot| boot.duration).sum(),
        plan: Planned {
            runs,
            finished: runs,
            ops: ops.map(|ops| ops.saturating_mul(first.plan.runs.into())),
            ..first.plan
        },
        results: rows.values().filter_map(|rows| row(rows)).collect(),
        ..first.clone()
    })
}

/// Merges the boots' rows of one name. Returns the first boot's row if no boot measured it.
fn row(rows: &[&Row]) -> Option<Row> {
    let mut boots: Vec<&Measured> = rows.iter().filter_map(|row| row.measured()).collect();
    if boots.iter().any(|boot| boot.exits.is_some()) {
        boots.retain(|boot| boot.exits.is_some());
    }
    let medians: Vec<f64> = boots.iter().map(|boot| boot.times.median).collect();
    // A guest reports how many operations it did.
    let sum = |ops: &[u64]| ops.iter().fold(0, |sum: u64, ops| sum.saturating_add(*ops));
    let ops: Vec<u64> = boots.iter().map(|boot| sum(&boot.times.ops)).collect();
    let mut merged = (*rows.first()?).clone();
    let Some(times) = Times::of(&medians, ops) else {
        return Some(merged);
    };
    let mut events: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (run, boot) in boots.iter().enumerate() {
        for (name, count) in counts(boot, times.ops[run]) {
            // An event that a boot does not list was counted 0 times in it.
            events.entry(name).or_insert_with(|| vec![0; boots.len()])[run] = count;
        }
    }
    let mut measured = Measured::of(times);
    measured.events = Counts::from_iter(events);
    let each = |name| Some(thousandths(median(&of_operation(&measured, name)?)?));
    let exits = Exits {
        total: each(EXITS),
        userspace: each(TO_VMM),
    };
    measured.exits = (exits != Exits::default()).then_some(exits);
    measured.exits_note = boots.iter().find_map(|boot| boot.exits_note.clone());
    merged.outcome = Outcome::Measured(Box::new(measured));
    Some(merged)
}

/// What a boot counted over all operations of a row: exits, exits by reason, and accesses by address.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts, which are far below 2^53"
)]
fn counts(boot: &Measured, operations: u64) -> Vec<(String, u64)> {
    let exits = boot.exits.unwrap_or_default();
    let sums = [(EXITS, exits.total), (TO_VMM, exits.userspace)];
    let sums = sums.map(|(name, each)| Some((name.to_owned(), each?)));
    let reasons = boot
        .exit_reasons
        .iter()
        .flat_map(|reasons| &reasons.kvm_exit);
    let reasons = reasons.map(|(reason, each)| (format!("{EXITS}:{reason}"), *each));
    let exits = sums.into_iter().flatten().chain(reasons);
    let exits = exits.map(|(name, each)| (name, (each * float(operations)).round() as u64));
    let first = |(name, runs): (&str, &[u64])| Some((name.to_owned(), *runs.first()?));
    exits.chain(boot.events.iter().filter_map(first)).collect()
}

#[cfg(test)]
#[path = "boots_test.rs"]
pub(super) mod tests;
