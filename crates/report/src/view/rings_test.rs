use crate::{Look, sample};

#[test]
fn the_tables() {
    insta::assert_snapshot!(sample::shown(&sample::rings(), Look::default(), None));
}

#[test]
fn a_row_without_numbers_says_why() {
    let mut report = sample::rings();
    report.interrupted = true;
    report.results[1].outcome = crate::Outcome::Skipped {
        reason: Some("interrupted".to_owned()),
    };
    let text = sample::shown(&report, Look::default(), None);
    assert!(
        text.contains("skipped: --wide-tokens\n  interrupted"),
        "{text}"
    );
    assert!(text.contains("INTERRUPTED"), "{text}");
    (report.interrupted, report.timed_out) = (false, true);
    let text = sample::shown(&report, Look::default(), None);
    assert!(text.contains("TIME LIMIT reached"), "{text}");
}
