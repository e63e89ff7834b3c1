//! Tests of the metrics.

use kit::openmetrics::{samples, value};

use super::*;
use crate::sample;

/// Whether there is a sample whose name begins so.
fn has(text: &str, name: &str) -> bool {
    value(&samples(text), name, "").is_some()
}

#[test]
fn a_native_report() {
    insta::assert_snapshot!(openmetrics(&sample::report()));
}

#[test]
fn instructions_are_no_seconds() {
    let text = openmetrics(&sample::counted());
    assert!(has(&text, "vmbell_operation_instructions{"));
    assert!(!has(&text, "vmbell_operation_seconds"));
}

#[test]
fn an_emulated_cpu_gives_exits_and_no_times() {
    let mut report = sample::report();
    report.timing = Timing::Emulated;
    let text = openmetrics(&report);
    assert!(has(&text, "vmbell_operation_exits{"));
    for family in ["seconds", "spread_ratio", "ratio", "instructions"] {
        assert!(
            !has(&text, &format!("vmbell_operation_{family}")),
            "{family}"
        );
    }
}

#[test]
fn a_family_comes_once_and_no_sample_comes_twice() {
    let text = openmetrics(&sample::two_backends());
    for backend in ["backend=\"kvm\"", "backend=\"usermode\""] {
        assert!(value(&samples(&text), "vmbell_operation_seconds{", backend).is_some());
    }
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
    let of = |name| value(&samples(&text), "vmbell_operation_measured{", name);
    assert_eq!(of("\"mmio-no-eventfd\""), Some(0.0));
    assert_eq!(of("eventfd+jmp"), None);
}

#[test]
fn a_run_that_was_cut_short_says_so() {
    let mut report = sample::report();
    report.timed_out = true;
    assert_eq!(samples(&openmetrics(&report))["vmbell_run_complete"], 0.0);
}
