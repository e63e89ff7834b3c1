//! The exits in the report of `vmbell bench vmms`: below the table of times one of exits per operation, and why there are none.

use std::fmt::Write;

use super::columns::{Cell, Paint, layout};
use super::markdown::escape;
use super::text::wrap;
use super::vmm_table::{cut, measured, names, padded, row, title};
use super::{Exits, Look, Report, Row, Vmm, units};

const TITLE: &str = "exits/op (to the VMM)";
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
    for note in notes(report, !columns.is_empty()) {
        let _ = writeln!(text, "\n{}", escape(&note));
    }
    text
}

/// The VMMs and the rows of which exits were counted.
fn counted(report: &Report) -> (Vec<&Vmm>, Vec<&str>) {
    let has = |row: &Row| row.exits().is_some();
    let of_vmm = |vmm: &&Vmm| {
        let rows = &mut report.common.results.iter();
        rows.any(|row| row.backend == vmm.name && has(row))
    };
    let of_name = |name: &&str| {
        let rows = &mut report.common.results.iter();
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
        for row in report
            .common
            .results
            .iter()
            .filter(|row| row.backend == vmm.name)
        {
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
