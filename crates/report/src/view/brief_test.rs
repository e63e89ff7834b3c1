//! Tests of the short form.

use super::*;
use crate::sample;

fn plain(report: &Report) -> String {
    sample::shown(report, Look::default(), None)
}

#[test]
fn the_short_form_of_one_backend() {
    insta::assert_snapshot!(plain(&sample::report()));
}

#[test]
fn the_short_form_of_two_backends() {
    insta::assert_snapshot!(plain(&sample::two_backends()));
}

#[test]
fn the_short_form_of_instructions() {
    insta::assert_snapshot!(plain(&sample::counted()));
}

#[test]
fn a_backend_that_emulates_kernel_mode_is_one_line_if_there_is_another() {
    let mut report = sample::two_backends();
    report.backends[0].emulates_kernel_mode = true;
    let text = plain(&report);
    assert!(!text.contains("7.10 µs"), "{text}");
    assert!(
        text.starts_with("These are costs of the usermode backend. kvm emulates"),
        "{text}"
    );
    assert!(!text.contains("\nkvm   "), "{text}");
    assert!(text.contains("x cheaper"), "{text}");
    report.backends.truncate(1);
    report.results.retain(|row| row.backend != "usermode");
    let text = plain(&report);
    assert!(text.contains("\nportio-no-eventfd "), "{text}");
    assert!(
        text.starts_with("kvm emulates") && text.contains("so these costs say nothing"),
        "{text}"
    );
}

#[test]
fn what_an_emulated_kvm_means_is_the_first_line() {
    let mut report = sample::two_backends();
    assert!(!plain(&report).contains("emulates"));
    report.backends[0].emulates_kernel_mode = true;
    let text = plain(&report).replacen('\n', " ", 2);
    let first = "These are costs of the usermode backend. kvm emulates the guest's kernel mode here, so its costs \
         (--backend kvm) say nothing about hardware. `vmbell lab -- vmbell bench` shows the exits of real KVM.\n";
    assert!(text.starts_with(first), "{text}");
}

#[test]
fn many_skipped_rows_are_counted_after_the_first_ones() {
    let mut report = sample::report();
    let skipped = report
        .results
        .iter()
        .find(|row| row.status() == Status::Skipped);
    let skipped = skipped.unwrap().clone();
    report.results.extend(vec![skipped; 9]);
    let text = plain(&report);
    assert_eq!(text.matches("\nskipped   ").count(), SKIPPED, "{text}");
    assert!(text.contains("\nskipped   5 more; -v says why\n"), "{text}");
}

#[test]
fn a_skipped_row_with_a_long_reason_is_one_line() {
    let mut report = sample::report();
    for row in &mut report.results {
        if row.status() == Status::Skipped {
            let reason = Some("a long reason ".repeat(20));
            row.outcome = crate::Outcome::Skipped { reason };
        }
    }
    let text = plain(&report);
    let at = text.find("\nskipped   ").unwrap();
    let line = text[at + 1..].lines().next().unwrap();
    assert!(line.ends_with('…') && line.chars().count() == 80, "{line}");
}

#[test]
fn floors_are_one_line_unless_nothing_else_was_measured() {
    let mut report = sample::report();
    let text = plain(&report);
    assert!(text.contains("\nfloors    getppid 712 ns, "), "{text}");
    report.results.retain(|row| row.group == Group::Floor);
    let text = plain(&report);
    assert!(text.contains("\nfloor-getppid "), "{text}");
    assert!(!text.contains("\nfloors "), "{text}");
}

#[test]
fn a_failure_is_always_told_and_a_skipped_row_is_a_line_with_its_reason() {
    let mut report = sample::report();
    let text = plain(&report);
    assert!(
        text.contains("failed: mmio-no-eventfd\n  the guest stopped"),
        "{text}"
    );
    assert!(text.contains("\nskipped   "), "{text}");
    assert!(text.contains(": needs | a pipe"), "{text}");
    report.results.retain(|row| row.status() == Status::Skipped);
    let text = plain(&report);
    assert!(text.contains("needs | a pipe"), "{text}");
    assert!(!text.contains("\nskipped   "), "{text}");
}

#[test]
fn a_ratio_whose_interval_contains_1_is_unclear() {
    let mut report = sample::report();
    report.results.remove(1);
    assert!(!plain(&report).contains(UNCLEAR));
    let row = sample::of(&mut report.results[1]);
    let ratio = row.ratio.as_mut().unwrap();
    ratio.ci_high = Some(1.01);
    let text = plain(&report);
    assert!(text.contains(" unclear\n"), "{text}");
    assert!(text.contains("\nunclear   the 95 % interval"), "{text}");
    assert!(
        text.contains("6.24 µs, not clearly less than an exit"),
        "{text}"
    );
}

#[test]
fn a_report_that_ended_early_says_so() {
    let mut report = sample::report();
    report.timed_out = true;
    assert!(plain(&report).contains("TIME LIMIT reached"));
}

#[test]
fn doubts_are_told_in_a_few_words() {
    let mut report = sample::report();
    report.host.load = Some(3.0);
    report.tsc.invariant = false;
    for row in &mut report.results[..3] {
        let times = &mut sample::of(row).times;
        (times.outliers, times.outliers_shift) = (3, 0.4);
    }
    let text = plain(&report).replace("\n          ", " ");
    for doubt in [
        "busy host, load 3.0 on 2 CPUs",
        "outliers move the median of 3 rows",
        "constant time stamp counter",
    ] {
        assert!(text.contains(doubt), "{doubt}: {text}");
    }
}

#[test]
fn no_line_is_wider_than_80_columns_or_the_terminal() {
    for report in [sample::report(), sample::two_backends(), sample::counted()] {
        for width in [None, Some(60), Some(72), Some(80), Some(200)] {
            for line in sample::shown(&report, Look::default(), width).lines() {
                let most = width.unwrap_or(80).min(80);
                assert!(line.chars().count() <= most, "{width:?}: {line}");
            }
        }
    }
}
