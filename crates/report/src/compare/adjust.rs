//! The correction for many rows: of 20 rows that did not change, one has a p-value below 0.05 on average.
//!
//! Benjamini and Hochberg's step-up procedure limits the expected share of false positives among the rows called
//! changed. If no row changed, every such call is false, so the limit also applies to the chance of any call.

use super::ComparedRow;

/// Sets [`ComparedRow::adjusted_p`] of all rows that have a p-value.
#[allow(clippy::cast_precision_loss, reason = "a number of rows")]
pub(super) fn benjamini_hochberg(rows: &mut [ComparedRow]) {
    let mut order: Vec<usize> = (0..rows.len())
        .filter(|row| rows[*row].p.is_some())
        .collect();
    let p = |row: usize| rows[row].p.unwrap_or(1.0);
    order.sort_by(|one, other| p(*one).total_cmp(&p(*other)));
    let count = order.len() as f64;
    let mut least = 1.0_f64;
    for (rank, row) in order.into_iter().enumerate().rev() {
        let p = rows[row].p.unwrap_or(1.0);
        least = least.min(p * count / (rank + 1) as f64);
        rows[row].adjusted_p = Some(least);
    }
}

#[cfg(test)]
#[path = "adjust_test.rs"]
mod tests;
