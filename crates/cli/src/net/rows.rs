//! Makes a report's rows of what the boots gave.

use std::collections::BTreeMap;

use super::Column;
use super::boot::{Counted, Measured};
use super::pattern::Pattern;
use crate::columns;
use vmbell_report::statistics::{Summary, thousandths};
use vmbell_report::{Counts, ExitReasons, Exits, Row, Timing};

/// The row of the time from the VMM's start to the guest's first program.
pub(super) const BOOT: &str = "boot";
/// The names of counts that are no exits.
const KICKS: &str = "kicks";
const INTERRUPTS: &str = "interrupts";
/// Exits for interrupts of the host itself, by the names of Intel's and AMD's reasons.
const HOST: [&str; 4] = ["EXTERNAL_INTERRUPT", "NMI", "interrupt", "nmi"];

/// The rows of all columns, with ratios to the first one that has results.
pub(super) fn all(columns: &[Column], patterns: &[Pattern], timing: Timing) -> Vec<Row> {
    let mut columns = columns.iter().filter(|column| !column.boots.is_empty());
    let Some(first) = columns.next() else {
        return Vec::new();
    };
    let mut all = of_column(first, patterns, timing);
    let references = all.len();
    for column in columns {
        for mut row in of_column(column, patterns, timing) {
            let mut old = all[..references].iter();
            let old = old.find(|old| old.command == row.command);
            row.ratio = old.and_then(|old| columns::ratio(&row, old));
            all.push(row);
        }
    }
    all
}

/// The rows of a column.
fn of_column(column: &Column, patterns: &[Pattern], timing: Timing) -> Vec<Row> {
    let name = column.way.name();
    let boots = column.boots.iter();
    let row = |row, samples: Vec<f64>, ops| {
        columns::row(columns::Measured {
            name: row,
            vmm: name,
            samples,
            ops,
            reason: None,
            timing,
            is_emulated: false,
        })
    };
    let init = boots.clone().map(|boot| nanoseconds(boot.init)).collect();
    let ones = vec![1; column.boots.len()];
    let mut rows = vec![row(BOOT, init, ones)];
    for pattern in patterns {
        let of_it = |measured: &&Measured| measured.pattern == *pattern;
        let all: Vec<&Measured> = boots
            .clone()
            .flat_map(|boot| boot.measured.iter().filter(of_it))
            .collect();
        let ns = all.iter().map(|one| thousandths(one.done.ns)).collect();
        let ops = all.iter().map(|one| whole(one.done.operations)).collect();
        let mut row = row(pattern.name(), ns, ops);
        add_events(&mut row, &all);
        rows.push(row);
    }
    rows
}

fn add_events(row: &mut Row, all: &[&Measured]) {
    let results = all.iter().filter_map(|one| one.events.as_ref());
    let counted: Result<Vec<&Counted>, &String> = results.map(Result::as_ref).collect();
    match counted {
        Ok(counted) if counted.len() == all.len() && !counted.is_empty() => {
            add_counted(row, &counted);
        }
        Ok(_) => {}
        Err(reason) => row.exits_note = Some(reason.clone()),
    }
}

fn add_counted(row: &mut Row, counted: &[&Counted]) {
    let of_guest = |(reason, _): &(&String, &u64)| !HOST.contains(&reason.as_str());
    let total = median(counted, |one| {
        one.events
            .exits
            .iter()
            .filter(of_guest)
            .map(|(_, count)| count)
            .sum()
    });
    let heavy = median(counted, |one| one.events.userspace.values().sum());
    row.exits = Some(Exits {
        light: Some(thousandths((total - heavy).max(0.0))),
        heavy,
    });
    row.exit_reasons = Some(ExitReasons {
        kvm_exit: means(counted, |one| &one.events.exits),
        kvm_userspace_exit: means(counted, |one| &one.events.userspace),
    });
    let counts = |count: fn(&Counted) -> u64| counted.iter().map(|one| count(one)).collect();
    row.counts = Counts::from_iter([
        (KICKS.to_owned(), counts(|one| one.events.kicks)),
        (INTERRUPTS.to_owned(), counts(|one| one.events.interrupts)),
    ]);
}

/// The median over boots, per operation.
#[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
fn median(counted: &[&Counted], count: impl Fn(&Counted) -> u64) -> f64 {
    let one = |counted: &&Counted| count(counted) as f64 / counted.operations;
    let counts: Vec<f64> = counted.iter().map(one).collect();
    Summary::of(&counts).map_or(0.0, |summary| thousandths(summary.median))
}

#[allow(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
fn means(
    counted: &[&Counted],
    of: fn(&Counted) -> &BTreeMap<String, u64>,
) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (reason, count) in counted.iter().flat_map(|one| of(one)) {
        *sums.entry(reason.clone()).or_default() += *count as f64;
    }
    let all: f64 = counted.iter().map(|one| one.operations).sum();
    let mean = |(reason, sum)| (reason, thousandths(sum / all));
    sums.into_iter().map(mean).collect()
}

fn nanoseconds(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// A number of operations as the report has it.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of at most 2^31"
)]
fn whole(operations: f64) -> u64 {
    operations.round() as u64
}

#[cfg(test)]
#[path = "rows_test.rs"]
mod tests;
