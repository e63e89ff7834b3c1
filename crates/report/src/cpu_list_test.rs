//! Tests of CPU lists.

use super::*;

#[test]
fn a_list_mixes_numbers_and_ranges() {
    assert_eq!(parse("0,2-4, 7").unwrap(), [0, 2, 3, 4, 7]);
}

#[test]
fn order_is_kept() {
    assert_eq!(parse("3,1").unwrap(), [3, 1]);
}

#[test]
fn nonsense_is_quoted_in_the_error() {
    for bad in ["", "x", "1-", "-1", "1,,2", "0x2"] {
        assert!(
            matches!(parse(bad), Err(CpuListError::NotANumber(_))),
            "{bad:?}"
        );
    }
    assert_eq!(parse("3-1"), Err(CpuListError::Backwards("3-1".into())));
    assert_eq!(
        parse("0-99999999999"),
        Err(CpuListError::TooLarge("0-99999999999".into()))
    );
}

#[test]
fn long_runs_are_shortened() {
    assert_eq!(Display(&[0, 1, 2, 3, 8, 9, 5]).to_string(), "0-3,8,9,5");
    assert_eq!(Display(&[0, 1]).to_string(), "0,1");
    assert_eq!(Display(&[]).to_string(), "");
}
