use super::*;

#[test]
fn the_error_is_that_of_the_mean() {
    // Standard deviation 2, four runs: 1 in 10.
    let error = error_of_mean(&[8.0, 8.0, 12.0, 12.0]).unwrap();
    assert!((error - (16.0_f64 / 3.0).sqrt() / 2.0 / 10.0).abs() < 1e-12);
    assert_eq!(error_of_mean(&[5.0]), None);
    assert_eq!(error_of_mean(&[0.0, 0.0]), Some(0.0));
}

#[test]
fn a_line_is_perfs() {
    let mut text = String::new();
    line(&mut text, &[19.0, 21.0], 0, "kicks", "0.001 a buffer");
    assert_eq!(
        text,
        "                20      kicks                    #       0.001 a buffer   ( +-  5.00% )\n"
    );
}
