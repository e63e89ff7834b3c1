//! Rows that count instructions: the same program executes the same number, so there is no noise to consider.

use super::{ComparedRow, NoVerdict, Verdict};

/// Decides a row by the ranges of its counts.
pub(super) fn decide(row: &mut ComparedRow, old: &[f64], new: &[f64]) {
    let range = |counts: &[f64]| {
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let wider = |(low, high): (f64, f64), count: &f64| (low.min(*count), high.max(*count));
        counts.iter().fold(ends, wider)
    };
    let ((old_low, old_high), (new_low, new_high)) = (range(old), range(new));
    let ends = [new_low / old_high, new_high / old_low];
    row.interval = row
        .ratio
        .map(|_| ends)
        .filter(|ends| ends.iter().all(|end| end.is_finite()));
    row.verdict = if row.old.median_ns == row.new.median_ns {
        Verdict::Same
    } else if new_high < old_low {
        Verdict::Faster
    } else if new_low > old_high {
        Verdict::Slower
    } else {
        row.reason = Some(NoVerdict::CountsOverlap);
        Verdict::Inconclusive
    };
}

#[cfg(test)]
#[path = "counted_test.rs"]
mod tests;
