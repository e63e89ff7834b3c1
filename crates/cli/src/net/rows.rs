//! Makes a report's rows of what the boots gave.

use super::Column;
use super::boot::{Counted, Measured};
use super::pattern::Pattern;
use crate::columns;
use vmbell_report::statistics::thousandths;
use vmbell_report::{Counts, ExitReasons, Exits, Row, Timing};

/// The row of the time from the VMM's start to the guest's first program.
pub(super) const BOOT: &str = "boot";
/// The names of counts that are no exits.
const KICKS: &str = "kicks";
const INTERRUPTS: &str = "interrupts";

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
            if let Some(old) = old {
                columns::compare(&mut row, old);
            }
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
    let Some(row) = row.measured_mut() else {
        return;
    };
    let results = all.iter().filter_map(|one| one.events.as_ref());
    let counted: Result<Vec<&Counted>, &String> = results.map(Result::as_ref).collect();
    match counted {
        Ok(counted) if counted.len() == all.len() => add_counted(row, &counted),
        Ok(_) => {}
        Err(reason) => row.exits_note = Some(reason.clone()),
    }
}

fn add_counted(row: &mut vmbell_report::Measured, counted: &[&Counted]) {
    let caused = |one: &&Counted| one.events.reasons.caused(one.operations);
    row.exits = Exits::of(&counted.iter().map(caused).collect::<Vec<_>>());
    row.exit_reasons = Some(ExitReasons::of(
        &counted
            .iter()
            .map(|one| (&one.events.reasons, one.operations))
            .collect::<Vec<_>>(),
    ));
    let counts = |count: fn(&Counted) -> u64| counted.iter().map(|one| count(one)).collect();
    row.counts = Counts::from_iter([
        (KICKS.to_owned(), counts(|one| one.events.kicks)),
        (INTERRUPTS.to_owned(), counts(|one| one.events.interrupts)),
    ]);
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
