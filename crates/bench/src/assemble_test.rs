//! Tests of the arithmetic between a record and a report.

use std::time::Duration;

use super::*;
use crate::{CommandLimit, CpuTime, RunSample, TickClock};
use vmbell_report::Status;

fn series(name: &str, group: Group, reference: Option<&str>, ns: &[f64]) -> SampleSeries {
    let mut series = SampleSeries::new(name, group, reference);
    for ns in ns {
        series.push(
            RunSample {
                ops: 10,
                elapsed_ns: ns * 10.0,
                light: Some(10),
                heavy: 5,
                ..RunSample::default()
            },
            CpuTime {
                user: 1e-6,
                system: 3e-6,
            },
        );
    }
    series
}

fn report(all: Vec<SampleSeries>) -> Report {
    report_of(all, Timing::Native)
}

fn report_of(all: Vec<SampleSeries>, timing: Timing) -> Report {
    let options = SubjectOptions {
        cpus: vec![0, 1],
        spin: SpinPolicy::Adaptive,
        clock: TickClock::with_frequency(2e9, true),
        limit: CommandLimit::none(),
        timing,
        marks: None,
    };
    let record = Record {
        series: all,
        ..Record::default()
    };
    let backends = ["usermode", "kvm"].map(|name| Backend {
        name: name.to_owned(),
        ..Backend::default()
    });
    let plan = crate::BenchPlan::default();
    let kind = paths(&record, &backends, &plan, &options);
    let context = ReportFacts {
        tool: Tool {
            name: "vmbell".to_owned(),
            version: "0.1.0".to_owned(),
            git: None,
        },
        options: &options,
        plan: &plan,
        host: Host::default(),
        backends: backends.into(),
        started: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(3),
        compared: &["cycles"],
    };
    assemble(&record, context, kind)
}

fn of(row: &Row) -> &Measured {
    row.measured().unwrap()
}

fn close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value / expected - 1.0).abs() < 1e-9)
}

#[test]
fn times_are_nanoseconds_per_operation() {
    let report = report(vec![series(
        "x",
        Group::Scenario,
        None,
        &[100.0, 110.0, 120.0],
    )]);
    let row = &report.results[0];
    let times = &of(row).times;
    assert!(close(Some(times.median), 110.0), "{row:?}");
    assert!(close(Some(times.mean), 110.0), "{row:?}");
    assert!(close(times.stddev, 10.0), "{row:?}");
    assert_eq!(times.samples, [100.0, 110.0, 120.0]);
    assert!(close(of(row).user, 100.0), "{row:?}");
    assert!(close(of(row).system, 300.0), "{row:?}");
    assert_eq!(report.paths().unwrap().spin, "adaptive");
    assert_eq!(report.plan.finished, 3);
}

#[test]
fn exits_are_per_operation_and_absent_from_floors() {
    let report = report(vec![
        series("x", Group::Scenario, None, &[100.0]),
        series("floor-x", Group::Floor, None, &[100.0]),
    ]);
    assert_eq!(
        report.results[0].exits(),
        Some(Exits {
            total: Some(1.5),
            userspace: Some(0.5)
        })
    );
    assert_eq!(report.results[1].exits(), None);
}

#[test]
fn emulated_times_are_no_valid_ones() {
    for (timing, valid) in [
        (Timing::Native, true),
        (Timing::Emulated, false),
        (Timing::Instructions, false),
    ] {
        let report = report_of(vec![series("x", Group::Scenario, None, &[1.0])], timing);
        assert_eq!(report.timing == Timing::Native, valid);
        assert_eq!(report.results[0].timing_valid, valid);
    }
}

#[test]
fn a_ratio_needs_both_rows() {
    let all = vec![
        series("old", Group::Scenario, None, &[200.0; 5]),
        series("new", Group::Scenario, Some("old"), &[50.0; 5]),
        series("alone", Group::Scenario, Some("absent"), &[50.0; 5]),
    ];
    let report = report(all);
    let ratio = report.results[1].ratio().unwrap();
    assert!(close(Some(ratio.value), 0.25));
    assert_eq!(ratio.reference, "old");
    assert_eq!(report.results[2].ratio(), None);
    assert_eq!(report.results[2].reference.as_deref(), Some("absent"));
}

#[test]
fn a_row_without_samples_has_no_numbers_at_all() {
    let mut failed = series("x", Group::Scenario, None, &[100.0]);
    failed.give_up(Status::Failed, "it broke".to_owned());
    let row = report(vec![failed]).results.remove(0);
    assert_eq!(
        row.outcome,
        Outcome::Failed {
            reason: Some("it broke".to_owned())
        }
    );
}

#[test]
fn single_latencies_make_the_percentiles() {
    let mut latency = SampleSeries::new("x", Group::Scenario, None);
    latency.push(
        RunSample {
            ops: 1000,
            elapsed_ns: 1e6,
            latencies_ns: (1..=1000).collect(),
            ..RunSample::default()
        },
        CpuTime::default(),
    );
    let row = report(vec![latency]).results.remove(0);
    assert_eq!(of(&row).times.percentiles_of, PercentilesOf::Operations);
    let p99 = of(&row).times.percentiles.unwrap().p99.unwrap();
    assert!((985.0..=995.0).contains(&p99), "{p99}");
}

#[test]
fn questions_are_answered_as_far_as_their_rows_are_there() {
    let report = report(vec![
        on("usermode", "portio-no-eventfd", &[1000.0; 3]),
        on("usermode", "portio-wildcard-eventfd", &[250.0; 3]),
        on("kvm", "portio-wildcard-eventfd", &[10.0; 3]),
    ]);
    assert_eq!(
        report.paths().unwrap().highlights.len(),
        1,
        "kvm's own device model is not there"
    );
    let highlight = &report.paths().unwrap().highlights[0];
    assert_eq!(highlight.new, "portio-wildcard-eventfd");
    assert_eq!(highlight.backend, "usermode");
    assert!(close(Some(highlight.ratio.value), 0.25));
}

#[test]
fn ratios_are_taken_within_a_backend() {
    let mut fast = on("kvm", "new", &[10.0; 3]);
    fast.reference = Some("old".to_owned());
    let mut slow = on("usermode", "new", &[100.0; 3]);
    slow.reference = Some("old".to_owned());
    let report = report(vec![
        on("kvm", "old", &[20.0; 3]),
        on("usermode", "old", &[1000.0; 3]),
        fast,
        slow,
    ]);
    let ratio = |row: usize| report.results[row].ratio().map(|ratio| ratio.value);
    assert!(
        close(ratio(2), 0.5) && close(ratio(3), 0.1),
        "{:?}",
        report.results
    );
    let backends: Vec<&str> = report
        .results
        .iter()
        .map(|row| row.backend.as_str())
        .collect();
    assert_eq!(backends, ["kvm", "usermode", "kvm", "usermode"]);
}

/// A measured scenario on a backend.
fn on(backend: &'static str, name: &str, ns: &[f64]) -> SampleSeries {
    let mut series = series(name, Group::Scenario, None, ns);
    series.backend = backend;
    series
}

#[test]
fn what_is_counted_stands_by_run_and_its_ratio_by_operation() {
    let counted = |name: &str, reference: Option<&str>, cycles: u64| {
        let mut series = SampleSeries::new(name, Group::Scenario, reference);
        for run in 0..3 {
            let sample = RunSample {
                ops: 10,
                elapsed_ns: 100.0,
                exits: Some(20),
                events: vec![("cycles".to_owned(), cycles + run)],
                counts: vec![("kicks".to_owned(), run)],
                ..RunSample::default()
            };
            series.push(sample, CpuTime::default());
        }
        series
    };
    let rows = report(vec![
        counted("old", None, 1000),
        counted("new", Some("old"), 500),
    ])
    .results;
    assert_eq!(
        of(&rows[0]).events.get("cycles"),
        Some([1000, 1001, 1002].as_slice())
    );
    assert_eq!(of(&rows[1]).counts.get("kicks"), Some([0, 1, 2].as_slice()));
    let all = Exits {
        total: Some(2.0),
        userspace: None,
    };
    assert_eq!(rows[1].exits(), Some(all));
    assert!(of(&rows[0]).ratios.is_empty());
    assert!(close(
        Some(of(&rows[1]).ratios["cycles"].value),
        501.0 / 1001.0
    ));
    assert!(close(Some(of(&rows[1]).ratios["exits"].value), 1.0));
}

#[test]
fn a_percentile_that_is_only_the_largest_value_is_not_stated() {
    let of = |runs: usize| {
        let mut series = SampleSeries::new("rate", Group::Scenario, None);
        let samples: Vec<f64> = (0..runs).map(|run| 100.0 + run as f64).collect();
        for ns in &samples {
            let sample = RunSample {
                ops: 1,
                elapsed_ns: *ns,
                ..RunSample::default()
            };
            series.push(sample, CpuTime::default());
        }
        of(&report(vec![series]).results[0])
            .times
            .percentiles
            .unwrap()
    };
    assert_eq!((of(9).p90, of(99).p99, of(999).p99_9), (None, None, None));
    assert!(of(10).p90.is_some() && of(100).p99.is_some() && of(1000).p99_9.is_some());
}

#[test]
fn light_exits_are_unknown_if_one_run_did_not_count_them() {
    let mut one = series("x", Group::Scenario, None, &[100.0, 100.0]);
    one.samples[1].light = None;
    let exits = report(vec![one]).results[0].exits().unwrap();
    assert_eq!((exits.total, exits.userspace), (None, Some(0.5)));
}

#[test]
fn a_time_below_the_resolution_bounds_the_ratio() {
    let reference = || series("old", Group::Scenario, None, &[200.0, 200.0, 200.0]);
    let new = |ns, resolution| {
        let mut new = series("new", Group::Scenario, Some("old"), &[ns, ns, ns]);
        new.remarks.resolution = resolution;
        new
    };
    // Two ticks of 2 GHz are 1 ns.
    let bounded = report(vec![reference(), new(0.5, Some(2))]);
    let row = &bounded.results[1];
    assert_eq!(
        (of(row).times.resolution, row.bound()),
        (Some(1.0), Some(1.0))
    );
    let ratio = row.ratio().unwrap();
    assert!(
        ratio.is_bound && close(Some(ratio.value), 1.0 / 200.0),
        "{ratio:?}"
    );
    for (ns, resolution) in [(1.0, Some(2)), (0.5, None)] {
        let exact = report(vec![reference(), new(ns, resolution)]);
        let ratio = exact.results[1].ratio().unwrap();
        assert!(
            !ratio.is_bound && close(Some(ratio.value), ns / 200.0),
            "{ratio:?}"
        );
    }
    let counted = report_of(vec![reference(), new(0.5, Some(2))], Timing::Instructions);
    assert_eq!(counted.results[1].bound(), None);
}

#[test]
fn nothing_is_compared_with_a_time_below_its_resolution() {
    let mut old = series("old", Group::Scenario, None, &[0.5]);
    old.remarks.resolution = Some(2);
    let new = series("new", Group::Scenario, Some("old"), &[100.0]);
    assert_eq!(report(vec![old, new]).results[1].ratio(), None);
}
