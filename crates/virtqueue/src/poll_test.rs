use super::*;

#[test]
fn split_opaque_has_laps_above_and_the_index_below() {
    assert_eq!(split_opaque(0xffff), 0x0000_ffff);
    assert_eq!(
        split_opaque(0x1_0000),
        0x0001_0000,
        "index 0xffff -> 0, wraps 0 -> 1"
    );
    assert_eq!(split_opaque(0xffff_ffff), 0xffff_ffff);
    assert_eq!(split_opaque(1 << 32), 0, "the horizon");
}

#[test]
fn packed_opaque_has_the_wrap_counter_in_bit_15() {
    assert_eq!(packed_opaque(0), 0x0000_8000);
    assert_eq!(packed_opaque(7), 0x0000_8007);
    assert_eq!(packed_opaque(1 << 16 | 7), 0x0001_0007);
    assert_eq!(packed_opaque(2 << 16 | 7), 0x0002_8007);
    assert_eq!(packed_opaque(1 << 32 | 7), 0x0000_8007, "the horizon");
}

#[test]
fn without_wraps_only_the_index_is_left() {
    assert_eq!(split_opaque(0x5_1234) & INDEX, 0x1234);
    assert_eq!(all_if_laps(0), 0);
    assert_eq!(all_if_laps(LAPS), u32::MAX);
}

#[test]
fn reset_goes_on_to_an_even_lap_that_was_never_before() {
    for position in [0, 1, 0xffff, 0x1_0000, 0x1_ffff, 0x2_0000, 0x12_3456] {
        let after = after_reset(position);
        assert!(after > position);
        assert_eq!(after & 0x1_ffff, 0);
        assert!(after - position <= 2 << 16);
    }
}
