//! Compares two sides, each of one or more reports: what changed from the old side to the new one.
//!
//! Rows are matched by what they measure ([`RowKey`]). Two numbers tell whether a ratio is noise: a confidence
//! interval, drawn by resampling reports and their runs ([`vmbell_statistics::bootstrap`]), and a p-value, from
//! permutations of what would be interchangeable if nothing had changed ([`vmbell_statistics::permutation`]). A
//! [`Verdict`] needs both.

mod adjust;
mod comparable;
mod counted;
mod depths;
mod estimate;
mod json;
mod matching;
mod model;
mod notes;
mod side_by_side;
mod view;

pub use comparable::Difference;
pub use depths::at_depths;
pub use json::json;
pub use matching::RowKey;
pub use model::{
    CompareError, CompareOptions, ComparedRow, Comparison, FailedRow, NoVerdict, Pairing, Side,
    SideOf, Verdict,
};
pub use side_by_side::side_by_side;

use super::{Report, Timing};
pub(crate) use comparable::{VERSION_OF, differences};
pub(crate) use matching::matched;

/// The share of false alarms that a comparison may have: 1 in 20.
const ALPHA: f64 = 0.05;

/// What the numbers of side-by-side reports are.
const fn quantity(timing: Timing) -> &'static str {
    match timing {
        Timing::Instructions => "instructions",
        Timing::Native | Timing::Emulated => "times",
    }
}

/// Whether this many reports of times on each side can show that a row changed.
pub fn can_show_a_change(old: usize, new: usize, pairing: Pairing) -> bool {
    (old, new) != (1, 1) && estimate::least_p(old, new, pairing) <= ALPHA
}

/// Compares the reports of the new side with the reports of the old side.
///
/// # Errors
///
/// If the reports do not measure the same thing in the same way, unless `options` allow that, or if they have no
/// measured row in common.
pub fn compare(
    old: &[Report],
    new: &[Report],
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    if options.pairing == Pairing::Turns && old.len() != new.len() {
        let (old, new) = (old.len(), new.len());
        return Err(CompareError::Turns { old, new });
    }
    let is_counted = |report: &Report| report.timing == Timing::Instructions;
    let mut all = old.iter().chain(new);
    if all.clone().any(is_counted) && !all.all(is_counted) {
        return Err(CompareError::Units);
    }
    let matching = matched(old, new, options.pairing)?;
    let differences = differences(old, new, false);
    let refused = differences.iter().filter(|difference| difference.refused);
    let refused: Vec<Difference> = refused.cloned().collect();
    if !options.allow_different && !refused.is_empty() {
        return Err(CompareError::Different(refused));
    }
    if matching.rows.is_empty() {
        let failed_now = matching.failed_now;
        return Err(CompareError::NothingInCommon { failed_now });
    }
    let mut rows: Vec<ComparedRow> = matching
        .rows
        .iter()
        .enumerate()
        .map(|(index, row)| estimate::row(row, index, options))
        .collect();
    adjust::benjamini_hochberg(&mut rows);
    for row in &mut rows {
        estimate::decide(row, options);
    }
    let notes = notes::notes(old, new, &matching, &rows, options.pairing);
    Ok(Comparison {
        timing: new.first().map(|report| report.timing).unwrap_or_default(),
        options: *options,
        old_reports: old.len(),
        new_reports: new.len(),
        rows,
        differences,
        only_old: matching.only_old,
        only_new: matching.only_new,
        failed_now: matching.failed_now,
        notes,
    })
}

#[cfg(test)]
#[path = "calibration_test.rs"]
mod calibration;
#[cfg(test)]
mod samples;
#[cfg(test)]
#[path = "compare_test.rs"]
mod tests;
