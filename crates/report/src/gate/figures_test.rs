use super::*;

#[test]
fn a_range_has_the_ends_and_the_middle_and_five_boots_leave_out_one_at_each_end() {
    for (boots, expected) in [
        (&[3.0, 1.0, 2.0][..], Some([1.0, 2.0, 3.0])),
        (&[], None),
        (&[1.0, 2.0, 3.0, 4.0], Some([1.0, 2.5, 4.0])),
        (&[9.0, 1.0, 2.0, 3.0, 4.0], Some([2.0, 3.0, 4.0])),
    ] {
        assert_eq!(BootRange::of(boots), expected.map(BootRange), "{boots:?}");
    }
}

#[test]
fn a_range_is_wide_from_two_per_cent_on() {
    let range = BootRange::of(&[98.0, 100.0, 101.0]).unwrap();
    assert_eq!(range.width(), 3.0);
    assert!(range.is_wide());
    assert!(!BootRange::of(&[99.0, 100.0, 101.0]).unwrap().is_wide());
}
