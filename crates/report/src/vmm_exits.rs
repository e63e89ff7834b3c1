//! The exits in the report of `vmbell bench vmms`: below the table of times one of exits per operation, and why there are none.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::columns::{Cell, Paint, layout};
use super::markdown::escape;
use super::text::wrap;
use super::vmm_table::{cut, measured, names, padded, row, title};
use super::{Exits, Look, Report, Row, Vmm, units};

const TITLE: &str = "exits/op (to the VMM)";
/// How many addresses of a row are shown.
const DEAREST: usize = 10;
const NOTE: &str = "exits of the CPU that measures, for one operation, and in brackets those that go on to the VMM's process; without the \
     exits for the host's own interrupts";

/// The table for a terminal, with a blank line before it; nothing if no exits were asked for.
pub(super) fn terminal(report: &Report, look: Look) -> String {
    let mut text = String::new();
    let (columns, names) = counted(report);
    let cell = |vmm: &Vmm, name: &str| {
        let exits = row(report, vmm, name).and_then(Row::exits);
        Cell::from(padded(&exits.map_or_else(|| "-".to_owned(), cell), false))
    };
    for block in cut(&columns, &names, look.width, (TITLE, &cell)) {
        text.push('\n');
        text.push_str(&layout(&block, look.color));
    }
    for (name, columns, addresses) in by_address(report) {
        let title = address_title(name);
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let cell = |vmm: &Vmm, address: &str| {
            Cell::from(padded(&at_address(report, vmm, name, address), false))
        };
        for block in cut(&columns, &addresses, look.width, (&title, &cell)) {
            text.push('\n');
            text.push_str(&layout(&block, look.color));
        }
    }
    for note in notes(report, !columns.is_empty()) {
        let note = wrap(&note, 0, look.width);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{}", Paint::Dim.apply(&note, look.color));
    }
    text
}

/// The table in Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    let (columns, names) = counted(report);
    if !columns.is_empty() {
        let _ = write!(text, "\n| {TITLE} |");
        for vmm in &columns {
            let _ = write!(text, " {} |", escape(&title(vmm)));
        }
        let _ = writeln!(text, "\n|:---|{}", "---:|".repeat(columns.len()));
    }
    for name in names {
        let _ = write!(text, "| `{name}` |");
        for vmm in &columns {
            let exits = row(report, vmm, name).and_then(Row::exits);
            let _ = write!(text, " {} |", exits.map_or_else(|| "-".to_owned(), cell));
        }
        text.push('\n');
    }
    for (name, columns, addresses) in by_address(report) {
        let _ = write!(text, "\n| {} |", address_title(name));
        for vmm in &columns {
            let _ = write!(text, " {} |", escape(&title(vmm)));
        }
        let _ = writeln!(text, "\n|:---|{}", "---:|".repeat(columns.len()));
        for address in addresses {
            let _ = write!(text, "| {} |", escape(&address));
            for vmm in &columns {
                let _ = write!(text, " {} |", at_address(report, vmm, name, &address));
            }
            text.push('\n');
        }
    }
    for note in notes(report, !columns.is_empty()) {
        let _ = writeln!(text, "\n{}", escape(&note));
    }
    text
}

/// The rows whose accesses were counted by address, each with the VMMs that have it and the addresses with the most accesses
/// of any.
fn by_address(report: &Report) -> Vec<(&str, Vec<&Vmm>, Vec<String>)> {
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
            let addresses = addresses.iter().map(|(address, _)| (*address).to_owned());
            rows.push((name, columns, addresses.collect()));
        }
    }
    rows
}

fn address_title(name: &str) -> String {
    format!("{name}: accesses by address")
}

/// How often the guest accessed an address, in the first run.
fn at_address(report: &Report, vmm: &Vmm, name: &str, address: &str) -> String {
    let events = row(report, vmm, name).and_then(Row::measured);
    let runs = events.and_then(|measured| measured.events.get(address));
    let first = runs.and_then(|runs| runs.first());
    first.map_or_else(|| "-".to_owned(), u64::to_string)
}

/// The VMMs and the rows of which exits were counted.
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

/// `3 (1)`: three exits, of which one goes on to the VMM.
fn cell(exits: Exits) -> String {
    let text = |number: Option<f64>| number.map_or_else(|| "?".to_owned(), units::per_op);
    format!("{} ({})", text(exits.total), text(exits.userspace))
}

/// What the table's numbers are, and why some are not there: each reason once, with the rows and VMMs that it is for.
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
