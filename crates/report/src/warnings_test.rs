//! Tests of the reasons to doubt a report.

use super::*;
use crate::sample;

fn has(report: &Report, wanted: fn(&Warning) -> bool) -> bool {
    warnings(report).iter().any(wanted)
}

#[test]
fn a_good_report_raises_no_doubt() {
    assert_eq!(warnings(&sample::report()), []);
}

#[test]
fn outliers_count_only_if_they_move_the_median() {
    let mut report = sample::report();
    sample::of(&mut report.results[0]).times.outliers = 3;
    assert_eq!(warnings(&report), []);
    sample::of(&mut report.results[0]).times.outliers_shift = 0.05;
    assert!(has(&report, |w| matches!(w, Warning::Outliers { .. })));
}

#[test]
fn an_emulated_cpu_is_said_aloud() {
    let mut report = sample::report();
    report.timing = Timing::Emulated;
    assert!(has(&report, |w| *w == Warning::Emulated));
    report.timing = Timing::Instructions;
    assert_eq!(warnings(&report), []);
}

#[test]
fn spinning_on_one_cpu_is_a_mistake() {
    let mut report = sample::report();
    sample::paths(&mut report).spin = "spin".to_owned();
    assert!(!has(&report, |w| *w == Warning::SpinOnOneCpu));
    report.cpus = vec![0];
    assert!(has(&report, |w| *w == Warning::SpinOnOneCpu));
}

#[test]
fn runs_that_came_out_too_short_are_named() {
    let mut report = sample::report();
    report.plan.min_time = 0.015;
    sample::of(&mut report.results[1]).times.shortest_run = Some(0.0076);
    assert_eq!(warnings(&report), []);
    sample::of(&mut report.results[1]).times.shortest_run = Some(0.0074);
    let short = |w: &Warning| match w {
        Warning::Short { names, .. } => names == &[sample::report().results[1].command.clone()],
        _ => false,
    };
    assert!(warnings(&report).iter().any(short));
    report.plan.ops = Some(1);
    assert_eq!(warnings(&report), [], "the user chose the length");
}

#[test]
fn a_rate_that_was_not_reached_is_named_with_the_rate_that_was() {
    let mut report = sample::events();
    let on = &mut report.results[1];
    on.parameters = [("rate".to_owned(), "500".to_owned())].into();
    sample::of(on).times.median = 2e6;
    assert!(!has(&report, |w| matches!(w, Warning::Slow { .. })));
    sample::of(&mut report.results[1]).times.median = 4e6;
    let (asked, reached) = (500.0, 250.0);
    let names = vec!["pv-eoi-on".to_owned()];
    let slow = Warning::Slow {
        names,
        asked,
        reached,
    };
    assert!(warnings(&report).contains(&slow));
}

#[test]
fn a_busy_host_is_named() {
    let mut report = sample::report();
    report.host.load = Some(1.5);
    assert!(has(&report, |w| matches!(w, Warning::Loaded { .. })));
}

#[test]
fn a_row_without_its_counterpart_says_what_to_do() {
    let mut report = sample::report();
    sample::of(&mut report.results[2]).ratio = None;
    let text = |report: &Report| warnings(report)[0].to_string();
    let lost = text(&report);
    assert!(lost.contains("portio-wildcard-eventfd"), "{lost}");
    assert!(
        lost.contains("could not be measured") && !lost.contains("--only"),
        "{lost}"
    );
    report.results.remove(0);
    let left_out = text(&report);
    assert!(left_out.contains("--only"), "{left_out}");
}

#[test]
fn long_lists_of_names_are_cut() {
    let names: Vec<String> = (0..6).map(|i| format!("n{i}")).collect();
    assert_eq!(list(&names), "n0, n1, n2, n3 and 2 more");
}
