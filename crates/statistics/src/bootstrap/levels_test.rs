//! Tests of the interval.

use super::*;

fn logs(reports: &[&[f64]]) -> Vec<Sorted> {
    let report = |samples: &&[f64]| Sorted::of(samples.iter().map(|x| x.ln()).collect());
    reports.iter().map(report).collect()
}

#[test]
fn a_seed_repeats_the_interval() {
    let (old, new) = (logs(&[&[1.0, 2.0, 3.0]]), logs(&[&[2.0, 3.0, 5.0]]));
    let interval = |seed| of_sides(old.clone(), new.clone(), 500, &mut Random::new(seed));
    assert_eq!(interval(7), interval(7));
    assert!(interval(7).is_some());
}

#[test]
fn one_report_of_two_rounds_has_no_interval() {
    let (two, three) = (logs(&[&[1.0, 2.0]]), logs(&[&[1.0, 2.0, 3.0]]));
    assert_eq!(
        of_sides(two.clone(), three.clone(), 100, &mut Random::new(1)),
        None
    );
    assert_eq!(
        of_sides(three.clone(), two.clone(), 100, &mut Random::new(1)),
        None
    );
    let several = logs(&[&[1.0], &[1.1]]);
    assert!(of_sides(several.clone(), several.clone(), 100, &mut Random::new(1)).is_some());
}

#[test]
fn drift_common_to_both_cancels_out_in_turns() {
    let old = logs(&[&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]]);
    let new = logs(&[&[0.5], &[1.0], &[1.5], &[2.0], &[2.5]]);
    let [low, high] = of_turns(old.clone(), new.clone(), 500, &mut Random::new(1)).unwrap();
    assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
    let [low, high] = of_sides(old.clone(), new.clone(), 500, &mut Random::new(1)).unwrap();
    assert!(low < 0.4 && high > 0.6);
}

#[test]
fn few_reports_are_widened_more_than_many() {
    let widened: Vec<f64> = [2, 3, 5, 6, 10, 30, 1000].map(widening).to_vec();
    assert!(widened.is_sorted_by(|one, next| one > next), "{widened:?}");
    assert!((widening(2) - 9.168).abs() < 0.001);
    assert!((widening(6) - 2.5706 * 1.2_f64.sqrt() / 1.96).abs() < 0.002);
    assert!((widening(1000) - 1.0).abs() < 0.01);
}
