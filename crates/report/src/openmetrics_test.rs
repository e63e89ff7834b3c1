//! Tests of the metrics.

use super::*;
use crate::sample;

/// The samples of a family, without their names.
fn samples<'t>(text: &'t str, family: &str) -> Vec<&'t str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(family))
        .filter(|rest| rest.starts_with(['{', ' ']))
        .collect()
}

#[test]
fn a_native_report() {
    insta::assert_snapshot!(openmetrics(&sample::report()));
}

#[test]
fn instructions_are_no_seconds() {
    let text = openmetrics(&sample::counted());
    assert!(!samples(&text, "vmbell_operation_instructions").is_empty());
    assert_eq!(samples(&text, "vmbell_operation_seconds"), [""; 0]);
}

#[test]
fn an_emulated_cpu_gives_exits_and_no_times() {
    let mut report = sample::report();
    report.timing = Timing::Emulated;
    let text = openmetrics(&report);
    assert!(!samples(&text, "vmbell_operation_exits").is_empty());
    for family in ["seconds", "spread_ratio", "ratio", "instructions"] {
        let family = format!("vmbell_operation_{family}");
        assert_eq!(samples(&text, &family), [""; 0], "{family}");
    }
}

#[test]
fn a_family_comes_once_and_no_sample_comes_twice() {
    let text = openmetrics(&sample::two_backends());
    let names = |prefix| {
        text.lines()
            .filter(move |line| line.starts_with(prefix))
            .map(|line| line.rsplit_once(' ').map(|(name, _)| name))
            .collect::<Vec<_>>()
    };
    for prefix in ["# TYPE", "vmbell"] {
        let mut unique = names(prefix);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names(prefix).len());
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_label_is_escaped() {
    let mut report = sample::report();
    report.host.cpu = "a \"CPU\" \\ with\ntwo lines".to_owned();
    let text = openmetrics(&report);
    assert!(text.contains(r#"cpu="a \"CPU\" \\ with\ntwo lines""#));
}

#[test]
fn a_failed_row_is_0_and_a_skipped_one_is_not_there() {
    let text = openmetrics(&sample::report());
    let measured = samples(&text, "vmbell_operation_measured");
    let of = |name: &str| measured.iter().find(|line| line.contains(name));
    assert!(of("\"mmio-no-eventfd\"").is_some_and(|line| line.ends_with(" 0")));
    assert_eq!(of("eventfd+jmp"), None);
}

#[test]
fn a_run_that_was_cut_short_says_so() {
    let mut report = sample::report();
    report.timed_out = true;
    assert_eq!(
        samples(&openmetrics(&report), "vmbell_run_complete"),
        [" 0"]
    );
}
