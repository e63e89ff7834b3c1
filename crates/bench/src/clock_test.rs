//! Tests of the calibrated counter.

use super::*;
use crate::wait::await_that;

#[test]
fn two_readings_of_both_clocks_give_the_frequency() {
    let start = Instant::now();
    let clock = Clock::between((70, start), (50_000_070, start + WINDOW)).unwrap();
    assert!((clock.hz() - 2.5e9).abs() < 1.0, "{}", clock.hz());
    for end in [70, 69] {
        let error = Clock::between((70, start), (end, start + WINDOW)).unwrap_err();
        assert!(
            matches!(error, ClockError::Backwards { start: 70, .. }),
            "{error}"
        );
    }
    assert!(Clock::calibrate().unwrap().hz() > 0.0);
}

#[test]
fn a_given_frequency_converts_both_ways() {
    let clock = Clock::with_frequency(2.5e9, true);
    assert!((clock.ns(250) - 100.0).abs() < 1e-9);
    assert!((clock.ticks(100.0) - 250.0).abs() < 1e-9);
    assert!((clock.hz() - 2.5e9).abs() < 1.0);
    assert!(clock.is_invariant());
}

#[test]
fn the_counter_advances() {
    let first = Clock::now();
    // A tick of a slow counter is longer than a reading takes.
    await_that("the next tick", || Clock::now() > first);
}
