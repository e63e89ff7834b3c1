//! Tests of series.

use super::*;

fn sample(ns: f64) -> RunSample {
    RunSample {
        ops: 10,
        elapsed_ns: ns * 10.0,
        ..RunSample::default()
    }
}

fn series(samples: u32) -> SampleSeries {
    let mut series = SampleSeries::new("x", Group::Scenario, None);
    for _ in 0..samples {
        series.push(sample(5.0), CpuTime::default());
    }
    series
}

#[test]
fn a_failed_row_keeps_no_numbers() {
    let mut series = series(3);
    series.give_up(Status::Failed, "it broke".into());
    assert_eq!(series.status, Status::Failed);
    assert!(series.ns_per_op().is_empty());
    assert_eq!(series.reason.as_deref(), Some("it broke"));
}

#[test]
fn a_skip_is_for_a_row_without_numbers() {
    for (samples, status, kept, expected) in [
        (0, Status::Skipped, 0, (Status::Skipped, Some("why"))),
        (3, Status::Skipped, 3, (Status::Ok, None)),
        (0, Status::Failed, 0, (Status::Failed, Some("why"))),
        (3, Status::Failed, 0, (Status::Failed, Some("why"))),
    ] {
        let mut series = series(samples);
        series.give_up(status, "why".into());
        assert_eq!(series.samples.len(), kept, "{samples} {status:?}");
        assert_eq!((series.status, series.reason.as_deref()), expected);
    }
}

#[test]
fn an_interrupt_keeps_what_is_finished() {
    let mut record = Record {
        series: vec![series(2), series(0)],
        ..Record::default()
    };
    record.stop(EarlyStop::Interrupted);
    assert_eq!(record.series[0].status, Status::Ok);
    assert_eq!(record.series[0].reason, None);
    assert_eq!(record.series[1].status, Status::Skipped);
    assert!(record.series[1].reason.is_some());
}

#[test]
fn an_interrupt_does_not_hide_an_earlier_failure() {
    let mut record = Record {
        series: vec![series(0)],
        ..Record::default()
    };
    record.series[0].give_up(Status::Failed, "first".into());
    record.stop(EarlyStop::TimedOut);
    assert_eq!(record.series[0].status, Status::Failed);
    assert_eq!(record.series[0].reason.as_deref(), Some("first"));
}

#[test]
fn no_latency_is_too_long_for_the_histogram() {
    let mut series = SampleSeries::new("x", Group::Scenario, None);
    series.push(
        RunSample {
            ops: 3,
            latencies_ns: vec![0, 5_000_000, u64::MAX / 2],
            ..RunSample::default()
        },
        CpuTime::default(),
    );
    let histogram = series.latencies.unwrap();
    assert_eq!(histogram.len(), 3);
    assert!(histogram.equivalent(histogram.value_at_quantile(0.5), 5_000_000));
    assert!(histogram.max() >= u64::MAX / 2);
}

#[test]
fn latencies_go_to_the_histogram_and_their_median_is_the_sample() {
    let mut series = SampleSeries::new("x", Group::Scenario, None);
    series.push(
        RunSample {
            ops: 3,
            elapsed_ns: 1e9,
            latencies_ns: vec![100, 200, 900],
            ..RunSample::default()
        },
        CpuTime::default(),
    );
    assert_eq!(series.ns_per_op(), [200.0]);
    assert_eq!(series.latencies.as_ref().unwrap().len(), 3);
    assert!(series.samples[0].latencies_ns.is_empty());
}

#[test]
fn a_round_that_not_all_came_to_is_forgotten_if_asked() {
    let mut failed = series(0);
    failed.give_up(Status::Failed, "it broke".into());
    let mut record = Record {
        series: vec![series(3), series(2), failed],
        ..Record::default()
    };
    record.keep_whole_rounds();
    let runs = |one: &SampleSeries| (one.samples.len(), one.ns_per_op().len());
    let kept: Vec<_> = record.series.iter().map(runs).collect();
    assert_eq!(kept, [(2, 2), (2, 2), (0, 0)]);
    record.series.push(series(0));
    record.keep_whole_rounds();
    assert!(record.series[0].samples.is_empty());
    assert_eq!(record.series[0].status, Status::Skipped);
    assert_eq!(record.series[2].status, Status::Failed);
}
