//! Tests of the p-values.

use super::*;

fn random() -> Random {
    Random::new(1)
}

#[test]
fn turns_that_all_agree_have_the_least_p_value_of_their_number() {
    for turns in 1..=20 {
        let ratios: Vec<f64> = (0..turns)
            .map(|turn| 0.1 + 0.001 * f64::from(turn))
            .collect();
        let p = of_turns(&ratios, &mut random());
        let least = least_of_turns(ratios.len());
        if turns <= 15 {
            assert_eq!(p, least, "{turns}");
        } else {
            assert!((least..3.0 * least).contains(&p), "{turns}: {p}");
        }
    }
}

#[test]
fn a_turn_that_was_disturbed_weighs_no_more_than_another() {
    let mut ratios = vec![0.1; 12];
    ratios[5] = -3.0;
    // 13 choices of signs are at least as extreme: one choice for each ratio that disagrees alone, and one choice in
    // which no ratio disagrees.
    assert_eq!(of_turns(&ratios, &mut random()), 13.0 / 2048.0);
}

#[test]
fn nothing_but_equal_turns_is_no_change() {
    assert_eq!(of_turns(&[0.0; 10], &mut random()), 1.0);
    assert_eq!(of_turns(&[0.0; 100], &mut random()), 1.0);
}

#[test]
fn sides_that_do_not_overlap_have_the_least_p_value_of_their_lengths() {
    for (old, new) in [(3, 3), (5, 5), (8, 8), (2, 7), (7, 2), (1, 9)] {
        let old: Vec<f64> = (0..old).map(f64::from).collect();
        let new: Vec<f64> = (0..new).map(|x| 100.0 + f64::from(x)).collect();
        let p = of_sides(&old, &new, &mut random());
        // The opposite extreme is as far from the middle, whatever the lengths are.
        let all = choices(old.len() + new.len(), new.len()).unwrap();
        assert_eq!(p, 2.0 / all as f64);
        assert_eq!(least_of_sides(old.len(), new.len()), p);
    }
}

#[test]
fn drawn_exchanges_agree_with_all_of_them() {
    // With 8 of 16, all permutations are tried, with 9 of 18 a sample: the same overlap has much the same p-value.
    let p = |length: u32| {
        let old: Vec<f64> = (0..length).map(f64::from).collect();
        let new: Vec<f64> = old.iter().map(|x| x + 2.5).collect();
        of_sides(&old, &new, &mut random())
    };
    assert!((p(8) - p(9)).abs() < 0.03, "{} {}", p(8), p(9));
}

#[test]
fn long_lists_agree_with_drawn_exchanges() {
    let p = |length: usize, shift: f64| {
        let mut random = Random::new(9);
        let mut side =
            |shift: f64| -> Vec<f64> { (0..length).map(|_| shift + random.normal()).collect() };
        let (old, new) = (side(0.0), side(shift));
        let scores = centred_ranks(&[&old[..], &new].concat());
        let sum: f64 = scores[length..].iter().sum();
        let normal = share_of_normal(reached(sum, &scores), &scores, length);
        (normal, of_sides(&old, &new, &mut random))
    };
    for shift in [0.0, 0.05, 0.1, 0.15, 0.2] {
        let (normal, drawn) = p(MANY, shift);
        assert!((normal - drawn).abs() < 0.015, "{shift}: {normal} {drawn}");
    }
    assert_eq!(share_of_normal(0.0, &[0.0; 2000], 1000), 1.0);
    let far: Vec<f64> = (0..2000).map(f64::from).collect();
    assert_eq!(
        of_sides(&far[..1000], &far[1000..], &mut random()),
        1.0 / MOST as f64
    );
}

#[test]
fn the_normal_distribution_has_the_variance_of_the_sums() {
    // One of two scores is chosen, so the variance is 1.
    for (least, expected) in [
        (-1.0, 1.0),
        (0.0, 1.0),
        (1.0, 0.317_311),
        (1.959_964, 0.05),
        (3.0, 0.002_700),
    ] {
        let share = share_of_normal(least, &[-1.0, 1.0], 1);
        assert!((share - expected).abs() < 1e-6, "{least}: {share}");
    }
}

#[test]
fn ties_share_the_mean_of_their_ranks() {
    assert_eq!(centred_ranks(&[5.0, 7.0, 5.0, 1.0]), [0.0, 3.0, 0.0, -3.0]);
    assert_eq!(of_sides(&[1.0; 20], &[1.0; 20], &mut random()), 1.0);
}

#[test]
fn the_ways_to_choose_are_counted() {
    assert_eq!(choices(16, 8), Some(12_870));
    assert_eq!(choices(5, 0), Some(1));
    assert_eq!(choices(200, 100), None);
}
