//! Tests of matching.

use super::*;
use crate::sample;

#[test]
fn rows_are_matched_by_name_group_backend_and_parameters() {
    let old = sample::report();
    let mut new = old.clone();
    new.results[0].backend = "kvm".to_owned();
    new.results[1]
        .parameters
        .insert("doorbells".to_owned(), "10".to_owned());
    let (old, new) = ([old], [new]);
    let matching = matched(&old, &new, Pairing::Apart).unwrap();
    let names: Vec<&str> = matching
        .rows
        .iter()
        .map(|row| row.key.command.as_str())
        .collect();
    let both = [
        "portio-wildcard-eventfd",
        "portio-notify-latency",
        "floor-getppid",
        "floor-eventfd-write",
    ];
    assert_eq!(names, both);
    let of = |keys: &[RowKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        of(&matching.only_old),
        [
            "portio-no-eventfd (usermode)",
            "portio-no-eventfd+spin (usermode)"
        ]
    );
    assert_eq!(
        of(&matching.only_new),
        [
            "portio-no-eventfd (kvm)",
            "portio-no-eventfd+spin (usermode)"
        ]
    );
}

#[test]
fn a_row_that_is_there_twice_is_an_error_that_names_it() {
    let mut twice = sample::report();
    twice.results.push(twice.results[0].clone());
    let (old, new) = ([sample::report()], [sample::report(), twice]);
    let error = matched(&old, &new, Pairing::Apart).unwrap_err();
    assert_eq!(
        error.to_string(),
        "report 2 of the new side has the row portio-no-eventfd (usermode) twice"
    );
}

#[test]
fn a_turn_in_which_one_side_failed_is_left_out() {
    let mut failed = sample::report();
    failed.results.remove(0);
    let old = [sample::report(), sample::report(), sample::report()];
    let new = [sample::report(), failed, sample::report()];
    let reports = |pairing| {
        let matching = matched(&old, &new, pairing).unwrap();
        (matching.rows[0].old.len(), matching.rows[0].new.len())
    };
    assert_eq!(reports(Pairing::Turns), (2, 2));
    assert_eq!(reports(Pairing::Apart), (3, 2));
}

/// A linear search for each row would take too long.
#[test]
fn a_hundred_thousand_rows_are_matched() {
    const ROWS: usize = 100_000;
    let mut old = sample::report();
    let model = old.results[0].clone();
    let row = |index: usize| Row {
        command: format!("row-{index}"),
        ..model.clone()
    };
    old.results = (0..ROWS).map(row).collect();
    let mut new = old.clone();
    new.results.reverse();
    let (old, new) = ([old], [new]);
    let matching = matched(&old, &new, Pairing::Apart).unwrap();
    assert_eq!(matching.rows.len(), ROWS);
    let last = matching.rows.last().unwrap();
    assert_eq!(last.key.command, last.new[0].command);
}
