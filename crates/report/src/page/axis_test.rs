use super::*;

#[test]
fn letters_that_are_close_stand_in_lines_of_their_own() {
    assert_eq!(lanes(&[10.0, 50.0, 90.0]), [0, 0, 0]);
    assert_eq!(lanes(&[10.0, 12.0, 14.0, 16.0, 50.0]), [0, 1, 2, 0, 0]);
}

#[test]
fn labels_have_no_zeros_at_their_end() {
    let label = |ns| label(ns, Timing::Native);
    assert_eq!(label(0.0), "0");
    assert_eq!(label(1.0), "1 ns");
    assert_eq!(label(1500.0), "1.5 µs");
    assert_eq!(label(100_000.0), "100 µs");
    assert_eq!(super::label(2000.0, Timing::Instructions), "2000");
}
