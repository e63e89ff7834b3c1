//! Tests of the calibrated counter.

use super::*;

#[test]
fn a_calibrated_clock_agrees_with_the_monotonic_one() {
    let clock = Clock::calibrate().unwrap();
    let (start, started) = (Clock::now(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    let (end, elapsed) = (Clock::now(), started.elapsed());
    let measured = clock.ns(end - start);
    let truth = elapsed.as_secs_f64() * 1e9;
    assert!(
        (measured / truth - 1.0).abs() < 0.02,
        "{measured} ns of ticks in {truth} ns"
    );
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
    std::thread::sleep(Duration::from_millis(1));
    assert!(Clock::now() > first);
}
