//! What readers must know to judge the verdicts, in sentences: what the comparison's design cannot show, and what is
//! odd about its reports.

use super::estimate::least_p;
use super::matching::Matching;
use super::{ALPHA, ComparedRow, Pairing, SideOf};
use crate::{Report, Timing};

/// The notes on a comparison.
pub(super) fn notes(
    old: &[Report],
    new: &[Report],
    matching: &Matching<'_>,
    rows: &[ComparedRow],
    pairing: Pairing,
) -> Vec<String> {
    let mut notes = Vec::new();
    let is_counted = matching.rows.iter().any(|row| row.is_counted);
    let timings = || old.iter().chain(new).map(|report| report.timing);
    if is_counted {
        notes.push(
            "Instructions are counted and not estimated: every difference is there in each run of these programs. But \
             another build, kernel or set of options moves the counts of rows that it does not concern too, by a few \
             per cent."
                .to_owned(),
        );
    } else if timings().any(|timing| timing != Timing::Native) {
        notes.push("Times of an emulated CPU say nothing about hardware.".to_owned());
    }
    if !is_counted {
        notes.extend(single(old, new));
        notes.extend(sequence(old, new, pairing));
    }
    notes.extend(too_few(rows, pairing));
    for (side, reports) in [(SideOf::Old, old), (SideOf::New, new)] {
        notes.extend(oddities(side, reports));
    }
    if old.iter().any(|report| new.contains(report)) {
        notes.push("The old side and the new side have a report in common.".to_owned());
    }
    notes
}

/// What cannot be known if a side is a single report.
fn single(old: &[Report], new: &[Report]) -> Option<String> {
    let text = match (old.len(), new.len()) {
        // No row has a verdict then, and the rows say why.
        (1, 1) => return None,
        (1, _) => {
            "The old side is a single report, so its intervals leave out how much two measurements of the same differ."
        }
        (_, 1) => {
            "The new side is a single report, so its intervals leave out how much two measurements of the same differ."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Notes that one side was measured entirely before the other. Two single reports always are, and their rows have no
/// verdict.
fn sequence(old: &[Report], new: &[Report], pairing: Pairing) -> Option<String> {
    // Times in RFC 3339 and UTC sort like text.
    let started = |reports: &[Report]| {
        let mut started: Vec<String> = reports
            .iter()
            .map(|report| report.started.clone())
            .collect();
        started.sort();
        Some((started.first()?.clone(), started.last()?.clone()))
    };
    let ((old_first, old_last), (new_first, new_last)) = (started(old)?, started(new)?);
    let is_sequence = old_last < new_first || new_last < old_first;
    if !is_sequence || old.len().max(new.len()) == 1 {
        return None;
    }
    Some(match pairing {
        Pairing::Apart => "One side was measured as a whole before the other: anything else that changed on the host \
                           meanwhile looks like a change. Measure in turns."
            .to_owned(),
        Pairing::Turns => "These reports were not measured in turns: one side was measured as a whole before the other, so \
                           the reports of a turn have no more in common than any others, and anything else that changed \
                           on the host meanwhile looks like a change."
            .to_owned(),
    })
}

/// What this small number of reports cannot show for this number of rows.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of rows"
)]
fn too_few(rows: &[ComparedRow], pairing: Pairing) -> Option<String> {
    let tested: Vec<&ComparedRow> = rows.iter().filter(|row| row.p.is_some()).collect();
    let least = tested
        .iter()
        .map(|row| least_p(row.old.reports, row.new.reports, pairing))
        .reduce(f64::min)?;
    let count = tested.len();
    let together = (least * count as f64 / ALPHA).ceil() as usize;
    if together <= 1 {
        return None;
    }
    let enough = |number: &usize| least_p(*number, *number, pairing) * count as f64 <= ALPHA;
    let shown = if together > count {
        "cannot show any change".to_owned()
    } else {
        format!("show a change only where at least {together} of {count} rows changed together")
    };
    let advice = match (2..100).find(enough) {
        Some(number) => format!("take at least {number} to find a single row among {count}"),
        None => "compare fewer rows".to_owned(),
    };
    let row = tested.first()?;
    let has = match (pairing, row.old.reports, row.new.reports) {
        (Pairing::Turns, turns, _) => format!("{turns} turns"),
        (Pairing::Apart, old, new) if old == new => format!("{old} reports a side"),
        (Pairing::Apart, old, new) => format!("{old} and {new} reports a side"),
    };
    Some(format!("{has} {shown}: {advice}."))
}

/// What is odd about the reports of one side.
fn oddities(side: SideOf, reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    let stopped = |report: &&Report| report.interrupted || report.timed_out;
    match reports.iter().filter(stopped).count() {
        0 => {}
        stopped => notes.push(format!(
            "Of the {side} side, {stopped} of {} reports stopped before the end.",
            reports.len()
        )),
    }
    let twice = |index: &usize| reports[..*index].contains(&reports[*index]);
    match (0..reports.len()).filter(twice).count() {
        0 => {}
        copies => notes.push(format!(
            "Of the {side} side, {copies} of {} reports are copies of another one, which count as measurements of their \
             own.",
            reports.len()
        )),
    }
    notes
}

#[cfg(test)]
#[path = "notes_test.rs"]
mod tests;
