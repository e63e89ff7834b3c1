use super::*;
use crate::ring::split_opaque;

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
