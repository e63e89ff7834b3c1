use super::*;
use crate::{Look, sample};

#[test]
fn the_table() {
    insta::assert_snapshot!(sample::shown(&sample::events(), Look::default(), None));
}

#[test]
fn a_change_is_in_per_cent_of_the_first_row_per_operation() {
    let ratio = |value, ends: Option<[f64; 2]>| Ratio {
        reference: "off".to_owned(),
        value,
        ci_low: ends.map(|[low, _]| low),
        ci_high: ends.map(|[_, high]| high),
        is_bound: false,
    };
    assert_eq!(change(&ratio(0.5, None)), "-50.0 %");
    assert_eq!(
        change(&ratio(0.5, Some([0.49, 0.52]))),
        "-50.0 % [-51.0, -48.0]"
    );
    assert_eq!(change(&ratio(1.0, Some([1.0, 1.0]))), "");
}

#[test]
fn rows_that_are_not_compared_have_no_change_and_say_why() {
    let mut report = sample::events();
    sample::of(&mut report.results[1]).ratios.clear();
    report.results[1].note = Some("the bit was never set".to_owned());
    let text = sample::shown(&report, Look::default(), None);
    assert!(!text.contains(" %"), "{text}");
    assert!(text.contains("pv-eoi-on: the bit was never set"), "{text}");
}
