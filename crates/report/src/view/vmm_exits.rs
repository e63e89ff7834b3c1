//! The exits in the report of `vmbell bench vmms`: a table of exits per operation, and why some exits were not counted.

use std::collections::BTreeMap;

use super::vmms::{measured, names, row, table};
use crate::table::{Block, Cell};
use crate::{Exits, Report, Row, Vmm, units};

const TITLE: &str = "exits/op (to the VMM)";
/// The maximum number of addresses of a row that are shown.
const DEAREST: usize = 10;
const NOTE: &str = "exits of the CPU that measures, for one operation, and in brackets those that go on to the VMM's process; without the \
     exits for the host's own interrupts";

/// Shows the exits; empty if no exits were requested.
pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let (columns, names) = counted(report);
    let exits = table(&columns, TITLE, &names, |vmm, name| {
        let exits = row(report, vmm, name).and_then(Row::exits);
        exits.map(cell)
    });
    let mut blocks: Vec<Block> = exits.into_iter().collect();
    for (name, columns, addresses) in by_address(report) {
        let title = format!("{name}: accesses by address");
        blocks.extend(table(&columns, &title, &addresses, |vmm, address| {
            at_address(report, vmm, name, address)
        }));
    }
    let notes = notes(report, !columns.is_empty()).into_iter();
    blocks.extend(notes.map(Block::Note));
    blocks
}

/// The rows whose accesses were counted by address, each with the VMMs that have the row and with the addresses that
/// were accessed most often in any of them.
fn by_address(report: &Report) -> Vec<(&str, Vec<&Vmm>, Vec<&str>)> {
    let mut rows = Vec::new();
    for name in names(report) {
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        let mut columns = Vec::new();
        for vmm in measured(report) {
            let events = row(report, vmm, name).and_then(Row::measured);
            let events = events.map(|measured| &measured.events);
            let Some(events) = events.filter(|events| !events.is_empty()) else {
                continue;
            };
            columns.push(vmm);
            for (address, runs) in events.iter() {
                let count = runs.iter().copied().max().unwrap_or_default();
                let most = most.entry(address).or_default();
                *most = (*most).max(count);
            }
        }
        let mut addresses: Vec<(&str, u64)> = most.into_iter().collect();
        addresses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        addresses.truncate(DEAREST);
        if !columns.is_empty() {
            let addresses = addresses.iter().map(|(address, _)| *address);
            rows.push((name, columns, addresses.collect()));
        }
    }
    rows
}

/// How often the guest accessed an address, in the first run.
fn at_address(report: &Report, vmm: &Vmm, name: &str, address: &str) -> Option<Cell> {
    let events = &row(report, vmm, name)?.measured()?.events;
    events
        .get(address)?
        .first()
        .map(|count| Cell::from(count.to_string()))
}

/// The VMMs and the rows with counted exits.
fn counted(report: &Report) -> (Vec<&Vmm>, Vec<&str>) {
    let has = |row: &Row| row.exits().is_some();
    let of_vmm = |vmm: &&Vmm| {
        let rows = &mut report.results.iter();
        rows.any(|row| row.backend == vmm.name && has(row))
    };
    let of_name = |name: &&str| {
        let rows = &mut report.results.iter();
        rows.any(|row| row.command == *name && has(row))
    };
    let columns = measured(report).into_iter().filter(of_vmm).collect();
    let names = names(report).into_iter().filter(of_name).collect();
    (columns, names)
}

/// Formats exits as `3 (1)`: three exits, one of which goes on to the VMM.
fn cell(exits: Exits) -> Cell {
    let text = |number: Option<f64>| number.map_or_else(|| "?".to_owned(), units::per_op);
    Cell::from(format!("{} ({})", text(exits.total), text(exits.userspace)))
}

/// What the table's numbers are, and why some are missing: each reason once, with its rows and VMMs.
fn notes(report: &Report, has_table: bool) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if has_table {
        notes.push(NOTE.to_owned());
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let mut add =
        |reason, whose: String| match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, all)) => all.push(whose),
            None => reasons.push((reason, vec![whose])),
        };
    for vmm in measured(report) {
        if let Some(reason) = &vmm.exits_reason {
            add(reason, vmm.name.clone());
        }
        for row in report.results.iter().filter(|row| row.backend == vmm.name) {
            if let Some(reason) = row.measured().and_then(|row| row.exits_note.as_deref()) {
                add(reason, format!("{} ({})", row.command, row.backend));
            }
        }
    }
    let sentence = |(reason, whose): (&str, Vec<String>)| {
        format!("exits not counted of {}: {reason}", whose.join(", "))
    };
    notes.extend(reasons.into_iter().map(sentence));
    notes
}

#[cfg(test)]
#[path = "vmm_exits_test.rs"]
mod tests;
