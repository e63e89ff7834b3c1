//! What a gate shows of its verdict: one screen for the reviewer of a change.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::verdict::{GateChange, GatePlace, GateRow, GateVerdict};
use crate::table::{Block, Cell, Column, Paint, Table};
use crate::units;

/// How many rows a note names at most, and how many reasons of a change are shown at most.
const NAMED: usize = 6;

/// Shows the verdict. The last line says whether everything is within the budget.
pub fn blocks(verdict: &GateVerdict) -> Vec<Block> {
    let mut blocks = Vec::new();
    let tables = [
        ("grew", &verdict.grown, Paint::Red),
        ("shrank", &verdict.shrunk, Paint::Green),
    ];
    for (title, changes, paint) in tables {
        if !changes.is_empty() {
            blocks.push(Block::Table(table(title, changes, paint)));
            blocks.extend(changes.iter().filter_map(reasons).map(Block::Note));
        }
    }
    blocks.extend(problems(verdict).into_iter().map(Block::text));
    let notes = notes(verdict).into_iter();
    blocks.extend(notes.map(|note| Block::Text(Cell::new(note, Paint::Dim))));
    let paint = match verdict.is_within() {
        true => Paint::Green,
        false => Paint::Red,
    };
    blocks.push(Block::Text(Cell::new(headline(verdict), paint)));
    blocks
}

fn table(title: &str, changes: &[GateChange], paint: Paint) -> Table {
    let mut table = Table::new(title, changes.iter().map(|change| &change.name.row));
    let cells = |cell: fn(&GateChange) -> String| {
        changes
            .iter()
            .map(move |change| Some(Cell::from(cell(change))))
    };
    table.add(
        Column::words("VMM"),
        cells(|change| change.name.place.vmm.clone()),
    );
    table.add(
        Column::words("kernel"),
        cells(|change| change.name.place.kernel.clone()),
    );
    table.add(
        Column::words("what"),
        cells(|change| change.quantity.name().to_owned()),
    );
    table.add(
        Column::numbers("budget"),
        cells(|change| number(change.budget.median())),
    );
    table.add(
        Column::numbers("allowed"),
        cells(|change| number(change.allowed)),
    );
    table.add(
        Column::numbers("now"),
        cells(|change| number(change.now.median())),
    );
    let differences = changes
        .iter()
        .map(|change| Cell::new(difference(change), paint));
    table.add(Column::numbers("change"), differences.map(Some));
    table
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
fn difference(change: &GateChange) -> String {
    let (old, new) = (change.budget.median(), change.now.median());
    let difference = new - old;
    let sign = if difference < 0.0 { "-" } else { "+" };
    let mut text = format!("{sign}{}", number(difference.abs()));
    if old >= 100.0 {
        let _ = write!(text, " ({sign}{})", units::percent(difference.abs() / old));
    }
    text
}

/// The reasons and addresses of exits that changed, one sentence for each row.
fn reasons(change: &GateChange) -> Option<String> {
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
    let GateChange { name, .. } = change;
    let sentence = || {
        let (row, vmm) = (&name.row, &name.place.vmm);
        format!("exits of {row} ({vmm}): {}", reasons.join(", "))
    };
    (!reasons.is_empty()).then(sentence)
}

/// What else is over budget, in one sentence each.
fn problems(verdict: &GateVerdict) -> Vec<String> {
    let mut failures: BTreeMap<(&GatePlace, &str, &str), Vec<String>> = BTreeMap::new();
    for failed in &verdict.failed {
        let said = failed.last_output.as_deref().unwrap_or_default();
        let same = failures.entry((&failed.place, &failed.reason, said));
        same.or_default().push(failed.seed.to_string());
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

/// What readers should know, in one sentence each.
fn notes(verdict: &GateVerdict) -> Vec<String> {
    let mut notes = Vec::new();
    for version in &verdict.versions {
        let place = &version.place;
        notes.push(format!(
            "{} on {}: this is {}, and the budget is of {}",
            place.vmm, place.kernel, version.now, version.budget
        ));
    }
    let names = |names: &[GateRow]| {
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
            "held by exits only, since instructions of their boots differ by more than 2 %: {}. To hold instructions \
             too, have at least 5 boots in the plan, or remove what varies in the VMM, such as a thread that polls \
             (--keep FOLDER keeps each boot's figures), then --accept. If exits are enough, do nothing",
            names(&verdict.wide)
        ));
    }
    notes
}

/// The verdict in one line.
fn headline(verdict: &GateVerdict) -> String {
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
#[path = "view_test.rs"]
mod tests;
