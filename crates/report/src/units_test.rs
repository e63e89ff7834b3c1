//! Tests of formatted numbers.

use super::*;

#[test]
fn times_have_three_digits_and_a_fitting_unit() {
    for (ns, text) in [
        (0.0, "0.00 ns"),
        (0.354, "0.35 ns"),
        (43.12, "43.1 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (6244.0, "6.24 µs"),
        (99_960.0, "100 µs"),
        (1.2e6, "1.20 ms"),
        (3e9, "3.00 s"),
        (5e12, "5000 s"),
    ] {
        assert_eq!(time(ns), text, "{ns}");
    }
}

#[test]
fn sizes_are_counted_in_1024s() {
    for (size, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (131_072, "128 KiB"),
        (1_023_900, "0.98 MiB"),
        (1_994_752, "1.90 MiB"),
    ] {
        assert_eq!(bytes(size), text, "{size}");
    }
}

#[test]
fn rates_are_per_second() {
    assert_eq!(rate(712.0), "1.40 M/s");
    assert_eq!(rate(14_200.0), "70.4 k/s");
    assert_eq!(rate(2e9), "0.50 /s");
    assert_eq!(rate(0.0), "-");
}

#[test]
fn counts_per_operation_drop_their_zeros() {
    for (count, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (0.0002, "<0.01"),
        (10.0, "10"),
        (100.25, "100.25"),
    ] {
        assert_eq!(per_op(count), text);
    }
}

#[test]
fn instructions_are_whole_from_a_hundred_on() {
    for (number, text) in [(0.354, "0.35"), (43.12, "43.1"), (2984.6, "2985")] {
        assert_eq!(count(number), text);
    }
}

#[test]
fn ratios_below_a_tenth_have_two_significant_digits() {
    for (value, text) in [
        (12.34, "12.3"),
        (0.44, "0.44"),
        (0.1, "0.10"),
        (0.0999, "0.10"),
        (0.0994, "0.099"),
        (0.0704, "0.070"),
        (0.01, "0.010"),
        (0.001_001, "0.0010"),
        (0.000_144_9, "0.00014"),
        (0.0, "0"),
    ] {
        assert_eq!(ratio(value), text, "{value}");
    }
}

#[test]
fn a_change_is_a_factor_from_two_on_and_a_share_below() {
    for (ratio, text) in [
        (0.156, "6.4x cheaper"),
        (0.077, "13x cheaper"),
        (1.0 / 616.4, "616x cheaper"),
        (1.0 / 14_234.0, "14200x cheaper"),
        (0.5, "2.0x cheaper"),
        (0.55, "45 % cheaper"),
        (0.996, "the same"),
        (1.0, "the same"),
        (1.004, "the same"),
        (1.34, "34 % slower"),
        (1.99, "99 % slower"),
        (1.996, "2.0x slower"),
        (3.32, "3.3x slower"),
    ] {
        assert_eq!(change(ratio, Timing::Native), text, "{ratio}");
    }
    let instructions = |ratio| change(ratio, Timing::Instructions);
    assert_eq!(instructions(1.34), "34 % more expensive");
    assert_eq!(instructions(0.5), "2.0x cheaper");
}

#[test]
fn one_thing_has_no_plural() {
    assert_eq!(plural(1_u32, "row"), "1 row");
    assert_eq!(plural(0_usize, "row"), "0 rows");
    assert_eq!(plural_of(2_u64, "batch", "batches"), "2 batches");
}
