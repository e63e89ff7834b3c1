//! Tests of calibration.

use super::*;
use crate::RunSample;

/// Far more than the subjects themselves need on a busy host: they only report that time has passed.
const MIN_TIME: Duration = Duration::from_secs(1000);

struct Costs {
    ns: f64,
    runs: u32,
}

impl Subject for Costs {
    fn name(&self) -> &str {
        "costs"
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        self.runs += 1;
        Ok(RunSample {
            ops,
            elapsed_ns: self.ns * f64::from(u32::try_from(ops).unwrap_or(u32::MAX)),
            ..RunSample::default()
        })
    }
}

fn ops_for(ns: f64) -> (u64, u32) {
    let mut subject = Costs { ns, runs: 0 };
    let ops = calibrate(&mut subject, MIN_TIME, &CommandLimit::none()).unwrap();
    (ops, subject.runs)
}

#[test]
fn a_run_is_filled_by_so_many_operations() {
    let (ops, runs) = ops_for(1e8);
    assert_eq!(ops, 10_000);
    assert!(runs < 3 * 8, "{runs}");
}

#[test]
fn an_operation_longer_than_a_run_is_done_once() {
    assert_eq!(ops_for(1e14).0, 1);
}

#[test]
fn an_operation_that_takes_no_time_ends_at_the_limit() {
    assert_eq!(ops_for(0.0).0, MAX_OPS);
}

#[test]
fn a_subject_with_long_pauses_is_not_grown_for_ever() {
    struct Pauses;
    impl Subject for Pauses {
        fn name(&self) -> &str {
            "pauses"
        }
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            std::thread::sleep(Duration::from_millis(50));
            Ok(RunSample {
                ops,
                elapsed_ns: 10.0,
                ..RunSample::default()
            })
        }
    }
    assert_eq!(
        calibrate(
            &mut Pauses,
            Duration::from_millis(10),
            &CommandLimit::none()
        )
        .unwrap(),
        1
    );
}

#[test]
fn slow_operations_are_fewer_and_their_number_is_round() {
    let fitting = |ns, most| {
        let mut subject = Costs { ns, runs: 0 };
        let ops = fitting(&mut subject, most, MIN_TIME, &CommandLimit::none()).unwrap();
        (ops, subject.runs)
    };
    // In the last case, an emulator with one CPU takes a time slice for each operation.
    let slow = [(1.5e9, 500), (1e10, 100), (2.9e10, 20), (8e10, 10)];
    for (ns, ops) in slow {
        assert_eq!(fitting(ns, 2000).0, ops, "{ns}");
    }
    assert_eq!(fitting(4e8, 2000).0, 2000);
    assert_eq!(fitting(0.0, 2000), (2000, 1));
    assert_eq!(fitting(1e13, 2000), (10, 1), "never fewer");
    assert_eq!(fitting(1e13, 5), (5, 1), "unless it is asked for fewer");
}

#[test]
fn what_all_subjects_have_is_a_power_of_two_within_bounds() {
    let bounds = (4096, 1 << 20);
    assert_eq!(same(6250, bounds), 4096);
    assert_eq!(same(11_111, bounds), 8192);
    assert_eq!(same(100_000, bounds), 65_536);
    assert_eq!(same(10_000_000, bounds), 1 << 20);
    assert_eq!(same(0, bounds), 4096, "enough to be seen");
    assert_eq!(same(6250, (100_000, 1 << 20)), 100_000);
}

/// The first `disturbed` runs take 4000 s longer than their operations need.
struct Disturbed {
    disturbed: u32,
}

impl Subject for Disturbed {
    fn name(&self) -> &str {
        "disturbed"
    }

    #[allow(clippy::cast_precision_loss, reason = "few operations")]
    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let extra = if self.disturbed > 0 { 4e12 } else { 0.0 };
        self.disturbed = self.disturbed.saturating_sub(1);
        Ok(RunSample {
            ops,
            elapsed_ns: 1e7 * ops as f64 + extra,
            ..RunSample::default()
        })
    }
}

#[test]
fn two_disturbed_tries_do_not_shorten_the_runs() {
    let mut subject = Disturbed { disturbed: 2 };
    let ops = calibrate(&mut subject, MIN_TIME, &CommandLimit::none()).unwrap();
    assert_eq!(ops, 100_000);
}

#[test]
fn a_run_that_is_too_short_gets_more_operations_and_a_long_one_keeps_its_own() {
    let min_time = Duration::from_millis(10);
    let time = |elapsed_ns, wall| RunTime {
        elapsed_ns,
        wall: Duration::from_millis(wall),
    };
    assert_eq!(enlarge(10, time(1e6, 1), min_time), 100);
    assert_eq!(enlarge(10, time(6e6, 6), min_time), 10);
    assert_eq!(enlarge(10, time(4e7, 40), min_time), 10);
    assert_eq!(
        enlarge(10, time(1e3, 20), min_time),
        10,
        "its pauses fill the run"
    );
    assert_eq!(enlarge(10, time(1.0, 0), min_time), 200, "step by step");
}
