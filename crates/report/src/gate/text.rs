//! The verdict of a gate on a terminal and in Markdown: one screen for whoever reviews a change.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::verdict::{Change, Place, Verdict};
use crate::columns::{Cell, CellRow, Paint, layout};
use crate::markdown::escape;
use crate::text::{visible, wrap};
use crate::{Look, units};

/// The most rows that a note names, and the most reasons of a change.
const NAMED: usize = 6;

/// Writes the verdict for a terminal.
pub fn terminal(verdict: &Verdict, look: Look) -> String {
    let mut text = String::new();
    for (title, changes, paint) in tables(verdict) {
        let mut table: Vec<CellRow> = vec![
            columns(title)
                .map(|title| Cell::new(title, Paint::Bold))
                .into(),
        ];
        for change in changes {
            let mut cells: Vec<Cell> = cells(change).map(Cell::from).into();
            cells.push(Cell::new(difference(change), paint));
            table.push(cells);
        }
        text.push_str(&layout(&table, look.color));
        for reasons in changes.iter().filter_map(reasons) {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "{}", wrap(&visible(&reasons), 2, look.width));
        }
        text.push('\n');
    }
    for problem in problems(verdict) {
        let _ = writeln!(text, "{}", wrap(&visible(&problem), 0, look.width));
    }
    for note in notes(verdict) {
        let note = wrap(&visible(&note), 0, look.width);
        let _ = writeln!(text, "{}", Paint::Dim.apply(&note, look.color));
    }
    let paint = match verdict.is_within() {
        true => Paint::Green,
        false => Paint::Red,
    };
    let _ = writeln!(text, "{}", paint.apply(&headline(verdict), look.color));
    text
}

/// Writes the verdict in Markdown.
pub fn markdown(verdict: &Verdict) -> String {
    let mark = match verdict.is_within() {
        true => "within budget",
        false => "over budget",
    };
    let mut text = format!("### vmbell gate: {mark}\n\n{}\n", headline(verdict));
    for (title, changes, _) in tables(verdict) {
        let _ = write!(text, "\n| {} |\n", columns(title).join(" | "));
        text.push_str("|:---|:---|:---|:---|---:|---:|---:|:---|\n");
        for change in changes {
            let cells = cells(change).map(|cell| escape(&cell));
            let difference = escape(&difference(change));
            let _ = writeln!(text, "| {} | {difference} |", cells.join(" | "));
        }
        for reasons in changes.iter().filter_map(reasons) {
            let _ = write!(text, "\n{}\n", escape(&visible(&reasons)));
        }
    }
    for sentence in problems(verdict).into_iter().chain(notes(verdict)) {
        let _ = write!(text, "\n{}\n", escape(&sentence));
    }
    text
}

/// What grew, and what shrank.
fn tables(verdict: &Verdict) -> impl Iterator<Item = (&'static str, &[Change], Paint)> {
    let tables = [
        ("grew", verdict.grown.as_slice(), Paint::Red),
        ("shrank", verdict.shrunk.as_slice(), Paint::Green),
    ];
    tables
        .into_iter()
        .filter(|(_, changes, _)| !changes.is_empty())
}

const fn columns(title: &'static str) -> [&'static str; 8] {
    [
        title, "VMM", "kernel", "what", "budget", "allowed", "now", "change",
    ]
}

/// The cells of a change, without the last.
fn cells(change: &Change) -> [String; 7] {
    [
        change.name.row.clone(),
        visible(&change.name.place.vmm),
        visible(&change.name.place.kernel),
        change.quantity.name().to_owned(),
        number(change.budget.median),
        number(change.allowed),
        number(change.now.median),
    ]
}

/// A number with at most three digits after the point.
fn number(value: f64) -> String {
    if value >= 100.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The difference: `+1`, `+500 (+3.1 %)`.
fn difference(change: &Change) -> String {
    let (old, new) = (change.budget.median, change.now.median);
    let difference = new - old;
    let sign = if difference < 0.0 { "-" } else { "+" };
    let mut text = format!("{sign}{}", number(difference.abs()));
    if old >= 100.0 {
        let _ = write!(text, " ({sign}{})", units::percent(difference.abs() / old));
    }
    text
}

/// The reasons and addresses of exits that changed, a sentence for each row.
fn reasons(change: &Change) -> Option<String> {
    let mut reasons: Vec<_> = change.reasons.iter().collect();
    // The largest change first.
    reasons.sort_by(|(_, a), (_, b)| (b[1] - b[0]).abs().total_cmp(&(a[1] - a[0]).abs()));
    let left_out = reasons.len().saturating_sub(NAMED);
    reasons.truncate(NAMED);
    let mut reasons: Vec<String> = reasons
        .into_iter()
        .map(|(name, [old, new])| format!("{name} {} -> {}", number(*old), number(*new)))
        .collect();
    if left_out > 0 {
        reasons.push(format!("and {left_out} more"));
    }
    let Change { name, .. } = change;
    let sentence = || {
        let (row, vmm) = (&name.row, &name.place.vmm);
        format!("exits of {row} ({vmm}): {}", reasons.join(", "))
    };
    (!reasons.is_empty()).then(sentence)
}

/// What else is over budget, a sentence each.
fn problems(verdict: &Verdict) -> Vec<String> {
    let mut failures: BTreeMap<(&Place, &str, &str), Vec<String>> = BTreeMap::new();
    for failed in &verdict.failed {
        let said = failed.boot.last_output.as_deref().unwrap_or_default();
        let same = failures.entry((&failed.place, &failed.boot.reason, said));
        same.or_default().push(failed.boot.seed.to_string());
    }
    let failed = failures.into_iter().map(|((place, reason, said), seeds)| {
        let said = match said {
            "" => String::new(),
            said => format!("; its last words: {said}"),
        };
        format!(
            "failed: {} on {}, with seed {}: {reason}{said}",
            place.vmm,
            place.kernel,
            seeds.join(", ")
        )
    });
    let gone = verdict.gone.iter().map(|gone| {
        let place = &gone.name.place;
        format!(
            "gone: {} of {} on {}: {}",
            gone.name.row, place.vmm, place.kernel, gone.reason
        )
    });
    failed.chain(gone).collect()
}

/// What a reader should know, a sentence each.
fn notes(verdict: &Verdict) -> Vec<String> {
    let mut notes = Vec::new();
    for version in &verdict.versions {
        let place = &version.place;
        notes.push(format!(
            "{} on {}: this is {}, and the budget is of {}",
            place.vmm, place.kernel, version.now, version.budget
        ));
    }
    let names = |names: &[super::verdict::Name]| {
        let mut text: Vec<String> = names
            .iter()
            .take(NAMED)
            .map(|name| format!("{} ({})", name.row, name.place.vmm))
            .collect();
        if names.len() > NAMED {
            text.push(format!("and {} more", names.len() - NAMED));
        }
        text.join(", ")
    };
    if !verdict.new.is_empty() {
        notes.push(format!("not in the budget: {}", names(&verdict.new)));
    }
    if !verdict.wide.is_empty() {
        notes.push(format!(
            "held by exits only, since instructions of their boots differ by more than 2 %: {}",
            names(&verdict.wide)
        ));
    }
    notes
}

/// The verdict in one line.
fn headline(verdict: &Verdict) -> String {
    let mut parts = Vec::new();
    let mut rows: Vec<_> = verdict.grown.iter().map(|change| &change.name).collect();
    rows.sort();
    rows.dedup();
    let is = if verdict.gone.len() == 1 { "is" } else { "are" };
    for (count, one, what) in [
        (rows.len(), "row", "grew"),
        (verdict.gone.len(), "row", &format!("{is} gone")),
        (verdict.failed.len(), "boot", "failed"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", units::plural(count, one)));
        }
    }
    let held = units::plural(verdict.held, "row");
    match parts.is_empty() {
        true => format!("within budget: {held} held"),
        false => format!("over budget: {}; {held} held", parts.join(", ")),
    }
}

#[cfg(test)]
#[path = "text_test.rs"]
mod tests;
