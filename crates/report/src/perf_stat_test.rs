use super::*;
use crate::{Look, sample, terminal};

#[test]
fn the_blocks() {
    insta::assert_snapshot!(terminal(&sample::perf_stat(), Look::default()));
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

#[test]
fn a_row_without_numbers_says_why() {
    let mut report = sample::perf_stat();
    report.interrupted = true;
    report.results[1].outcome = crate::Outcome::Skipped {
        reason: Some("interrupted".to_owned()),
    };
    let text = terminal(&report, Look::default());
    assert!(text.contains("skipped: interrupted"), "{text}");
    assert!(text.contains("INTERRUPTED"), "{text}");
    (report.interrupted, report.timed_out) = (false, true);
    let text = terminal(&report, Look::default());
    assert!(text.contains("TIME LIMIT reached"), "{text}");
}
