use super::super::Run;
use super::super::column::columns;
use super::*;
use crate::{Report, Timing, sample};

fn shown(report: Report) -> String {
    markup(&columns(&[Run::of("a.json", report)])).into_string()
}

#[test]
fn each_run_is_a_dot_by_its_distance_from_the_median() {
    let dots = dots(&[-0.05, 0.0, 0.025, 0.5], 0.05).to_string();
    assert!(dots.contains("M0 7h0M500 7h0M750 7h0M1000 7h0"), "{dots}");
}

#[test]
fn dots_beyond_the_axis_are_counted() {
    let mut report = sample::report();
    // 1 of 24 samples, which is outside of the axis.
    sample::of(&mut report.results[0]).times.samples[0] = 30_000.0;
    let text = shown(report);
    assert!(text.contains("4 runs, 1 beyond"), "{text}");
    assert!(text.contains("+6.0 %"), "{text}");
}

#[test]
fn a_time_below_the_resolution_has_no_strip() {
    let mut report = sample::report();
    sample::of(&mut report.results[0]).times.resolution = Some(1e6);
    assert!(shown(report).contains("below what can be told"));
}

#[test]
fn emulated_times_are_not_drawn() {
    let mut report = sample::report();
    report.timing = Timing::Emulated;
    assert_eq!(shown(report), "");
}
