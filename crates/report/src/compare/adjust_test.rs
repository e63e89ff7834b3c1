//! Tests of the correction for many rows.

use super::*;
use crate::compare::{RowKey, Side, Verdict};
use crate::sample;

fn row(p: Option<f64>) -> ComparedRow {
    let side = Side {
        median_ns: 1.0,
        reports: 1,
        runs: 3,
        is_bound: false,
    };
    ComparedRow {
        key: RowKey::of(&sample::report().results[0]),
        old: side,
        new: side,
        ratio: Some(1.0),
        interval: None,
        p,
        adjusted_p: None,
        verdict: Verdict::Inconclusive,
        reason: None,
    }
}

#[test]
fn p_values_are_multiplied_by_the_rows_over_their_rank() {
    let mut rows = [0.01, 0.04, 0.03, 0.5].map(|p| row(Some(p))).to_vec();
    benjamini_hochberg(&mut rows);
    let adjusted: Vec<f64> = rows.iter().map(|row| row.adjusted_p.unwrap()).collect();
    let expected = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
    for (adjusted, expected) in adjusted.iter().zip(expected) {
        assert!((adjusted - expected).abs() < 1e-12, "{adjusted} {expected}");
    }
}

#[test]
fn rows_without_a_p_value_do_not_count() {
    let mut rows = vec![row(None), row(Some(0.04)), row(None)];
    benjamini_hochberg(&mut rows);
    assert_eq!(rows[0].adjusted_p, None);
    assert_eq!(rows[1].adjusted_p, Some(0.04));
}
