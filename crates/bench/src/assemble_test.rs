//! Tests of the arithmetic between a record and a report.

use std::time::Duration;

use super::*;
use crate::{CommandLimit, CpuTime, RunSample, TickClock};
use vmbell_report::Status;

/// A series of runs.
fn of_runs(
    name: &str,
    group: Group,
    reference: Option<&str>,
    runs: impl IntoIterator<Item = RunSample>,
) -> SampleSeries {
    let mut series = SampleSeries::new(name, group, reference);
    for run in runs {
        let cpu = CpuTime {
            user: 1e-6,
            system: 3e-6,
        };
        series.push(run, cpu);
    }
    series
}

/// A series of runs of ten operations of this number of nanoseconds.
fn series(name: &str, group: Group, reference: Option<&str>, ns: &[f64]) -> SampleSeries {
    let runs = ns.iter().map(|ns| RunSample {
        ops: 10,
        elapsed_ns: ns * 10.0,
        light: Some(10),
        heavy: 5,
        ..RunSample::default()
    });
    of_runs(name, group, reference, runs)
}

/// A measured scenario on a backend.
fn on(backend: &'static str, name: &str, reference: Option<&str>, ns: &[f64]) -> SampleSeries {
    let mut series = series(name, Group::Scenario, reference, ns);
    series.backend = backend;
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
fn times_are_nanoseconds_and_exits_numbers_of_an_operation() {
    let report = report(vec![
        series("x", Group::Scenario, None, &[100.0, 110.0, 120.0]),
        series("floor-x", Group::Floor, None, &[100.0]),
    ]);
    let row = &report.results[0];
    let times = &of(row).times;
    for (found, expected) in [
        (Some(times.median), 110.0),
        (Some(times.mean), 110.0),
        (times.stddev, 10.0),
        (of(row).user, 100.0),
        (of(row).system, 300.0),
    ] {
        assert!(close(found, expected), "{expected}: {row:?}");
    }
    assert_eq!(times.samples, [100.0, 110.0, 120.0]);
    assert_eq!(report.paths().unwrap().spin, "adaptive");
    assert_eq!(report.plan.finished, 3);
    let exits = Exits {
        total: Some(1.5),
        userspace: Some(0.5),
    };
    assert_eq!(row.exits(), Some(exits));
    assert_eq!(report.results[1].exits(), None, "a floor has no exits");
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
    let run = RunSample {
        ops: 1000,
        elapsed_ns: 1e6,
        latencies_ns: (1..=1000).collect(),
        ..RunSample::default()
    };
    let latency = of_runs("x", Group::Scenario, None, [run]);
    let row = report(vec![latency]).results.remove(0);
    assert_eq!(of(&row).times.percentiles_of, PercentilesOf::Operations);
    let p99 = of(&row).times.percentiles.unwrap().p99.unwrap();
    assert!((985.0..=995.0).contains(&p99), "{p99}");
}

#[test]
fn questions_are_answered_as_far_as_their_rows_are_there() {
    let report = report(vec![
        on("usermode", "portio-no-eventfd", None, &[1000.0; 3]),
        on("usermode", "portio-wildcard-eventfd", None, &[250.0; 3]),
        on("kvm", "portio-wildcard-eventfd", None, &[10.0; 3]),
    ]);
    // kvm's own device model was not measured.
    let [highlight] = &report.paths().unwrap().highlights[..] else {
        panic!("{:?}", report.paths());
    };
    assert_eq!(highlight.new, "portio-wildcard-eventfd");
    assert_eq!(highlight.backend, "usermode");
    assert!(close(Some(highlight.ratio.value), 0.25));
}

#[test]
fn where_time_is_emulated_no_question_is_about_a_floor() {
    for (timing, expected) in [
        (
            Timing::Native,
            &["mmio-wildcard-eventfd", "doorbell-word"][..],
        ),
        (Timing::Emulated, &["mmio-wildcard-eventfd"]),
        (Timing::Instructions, &["mmio-wildcard-eventfd"]),
    ] {
        let all = vec![
            on("kvm", "mmio-no-eventfd", None, &[1000.0; 3]),
            on("kvm", "mmio-wildcard-eventfd", None, &[250.0; 3]),
            on("kvm", "doorbell-word", None, &[10.0; 3]),
            series("floor-eventfd-write", Group::Floor, None, &[100.0; 3]),
        ];
        let report = report_of(all, timing);
        let highlights = &report.paths().unwrap().highlights;
        let names: Vec<&str> = highlights.iter().map(|one| &*one.new).collect();
        assert_eq!(names, expected, "{timing:?}");
    }
}

#[test]
fn ratios_are_taken_within_a_backend() {
    let report = report(vec![
        on("kvm", "old", None, &[20.0; 3]),
        on("usermode", "old", None, &[1000.0; 3]),
        on("kvm", "new", Some("old"), &[10.0; 3]),
        on("usermode", "new", Some("old"), &[100.0; 3]),
    ]);
    let rows = &report.results;
    let ratio = |row: usize| rows[row].ratio().map(|ratio| ratio.value);
    assert!(close(ratio(2), 0.5) && close(ratio(3), 0.1), "{rows:?}");
    let backends: Vec<&str> = rows.iter().map(|row| row.backend.as_str()).collect();
    assert_eq!(backends, ["kvm", "usermode", "kvm", "usermode"]);
}

#[test]
fn what_is_counted_stands_by_run_and_its_ratio_by_operation() {
    let counted = |name: &str, reference: Option<&str>, cycles: u64| {
        let runs = (0..3).map(|run| RunSample {
            ops: 10,
            elapsed_ns: 100.0,
            exits: Some(20),
            events: vec![("cycles".to_owned(), cycles + run)],
            counts: vec![("kicks".to_owned(), run)],
            ..RunSample::default()
        });
        of_runs(name, Group::Scenario, reference, runs)
    };
    let all = vec![counted("old", None, 1000), counted("new", Some("old"), 500)];
    let rows = report(all).results;
    let (old, new) = (of(&rows[0]), of(&rows[1]));
    assert_eq!(old.events.get("cycles"), Some(&[1000, 1001, 1002][..]));
    assert_eq!(new.counts.get("kicks"), Some(&[0, 1, 2][..]));
    let all = Exits {
        total: Some(2.0),
        userspace: None,
    };
    assert_eq!(rows[1].exits(), Some(all));
    assert!(old.ratios.is_empty());
    assert!(close(Some(new.ratios["cycles"].value), 501.0 / 1001.0));
    assert!(close(Some(new.ratios["exits"].value), 1.0));
}

#[test]
fn a_percentile_that_is_only_the_largest_value_is_not_stated() {
    let percentiles = |runs: u32| {
        let runs = (0..runs).map(|run| RunSample {
            ops: 1,
            elapsed_ns: 100.0 + f64::from(run),
            ..RunSample::default()
        });
        let rate = of_runs("rate", Group::Scenario, None, runs);
        let report = report(vec![rate]);
        of(&report.results[0]).times.percentiles.unwrap()
    };
    let few = [9, 99, 999].map(percentiles);
    assert_eq!((few[0].p90, few[1].p99, few[2].p99_9), (None, None, None));
    let enough = [10, 100, 1000].map(percentiles);
    assert!(enough[0].p90.is_some() && enough[1].p99.is_some() && enough[2].p99_9.is_some());
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
    for (ns, resolution, bound) in [
        (0.5, Some(2), Some(1.0)),
        (1.0, Some(2), None),
        (0.5, None, None),
    ] {
        let report = report(vec![reference(), new(ns, resolution)]);
        let row = &report.results[1];
        assert_eq!(of(row).times.resolution, resolution.map(|_| 1.0), "{row:?}");
        assert_eq!(row.bound(), bound, "{row:?}");
        let ratio = row.ratio().unwrap();
        let expected = bound.unwrap_or(ns) / 200.0;
        assert_eq!(ratio.is_bound, bound.is_some(), "{row:?}");
        assert!(close(Some(ratio.value), expected), "{row:?}");
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
