use super::*;

#[test]
fn a_run_of_the_slowest_variant_takes_half_a_second_at_most() {
    let options = Options::default();
    assert_eq!(fit(80_000.0, &options), 4096);
    assert_eq!(fit(45_000.0, &options), 8192);
    assert_eq!(fit(5_000.0, &options), 65_536);
    assert_eq!(fit(50.0, &options), 1 << 20, "virtio_test's");
    assert_eq!(fit(0.0, &options), 1 << 20, "a clock that stands still");
    assert_eq!(fit(1e9, &options), WARM_UP, "enough to be seen");
}

#[test]
fn a_run_is_long_enough_for_a_reset() {
    let options = Options {
        reset: Some(100_000),
        ..Options::default()
    };
    assert_eq!(fit(80_000.0, &options), 100_000);
}
