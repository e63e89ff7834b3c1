//! Tests of the JSON.

use super::*;
use crate::compare::samples;

#[test]
fn the_json() {
    let mut comparison = samples::comparison();
    comparison.rows.truncate(1);
    // The last digits of logarithms differ between platforms.
    let row = &mut comparison.rows[0];
    (row.old.median_ns, row.new.median_ns) = (1000.0, 1100.0);
    (row.ratio, row.interval) = (Some(1.1), Some([1.0625, 1.125]));
    (row.p, row.adjusted_p) = (Some(0.001_953_125), Some(0.003_906_25));
    insta::assert_snapshot!(json(&comparison));
}

#[test]
fn it_is_told_from_a_report() {
    let error = crate::parse(&json(&samples::comparison())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is a comparison, not a report: name the reports that it compares"
    );
}
