//! Tests of dates.

use std::time::Duration;

use super::*;

fn at(seconds: u64) -> String {
    rfc3339(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[test]
fn the_epoch_is_1970() {
    assert_eq!(at(0), "1970-01-01T00:00:00Z");
}

#[test]
fn leap_days_exist_every_fourth_year_but_not_every_hundredth() {
    assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
}

#[test]
fn time_of_day_is_kept() {
    assert_eq!(at(1_795_253_400), "2026-11-21T09:30:00Z");
    assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59Z");
}

#[test]
fn a_clock_before_1970_counts_as_1970() {
    assert_eq!(
        rfc3339(UNIX_EPOCH - Duration::from_secs(5)),
        "1970-01-01T00:00:00Z"
    );
}

#[test]
fn a_timestamp_is_read_as_it_was_written() {
    assert_eq!(unix_seconds("2026-11-21T09:30:00Z"), Some(1_795_253_400));
    assert_eq!(unix_seconds("yesterday"), None);
}
