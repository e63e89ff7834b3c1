//! Tests of the runner with subjects that take no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::{CommandLimit, SilentObserver, TickClock};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::Group;
use vmbell_report::Timing;

type Log = Arc<Mutex<Vec<String>>>;

struct Fake {
    name: String,
    log: Log,
    runs: u32,
    fails_at: Option<u32>,
}

impl Subject for Fake {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        self.runs += 1;
        if self.fails_at == Some(self.runs) {
            return Err(SubjectError::failed(&self.name, "it broke"));
        }
        self.log.lock().push(self.name.clone());
        Ok(RunSample {
            ops,
            elapsed_ns: 1e9,
            light: Some(ops),
            ..RunSample::default()
        })
    }
}

fn options(limit: CommandLimit) -> SubjectOptions {
    SubjectOptions {
        cpus: vec![0],
        spin: SpinPolicy::Sleep,
        clock: TickClock::with_frequency(1e9, true),
        limit,
        timing: Timing::Native,
        marks: None,
    }
}

fn entries(names: &[&str], log: &Log, fails_at: Option<u32>) -> Vec<BenchEntry> {
    names
        .iter()
        .map(|name| {
            let (name, log) = ((*name).to_owned(), Arc::clone(log));
            let fails_at = fails_at.filter(|_| name == "bad");
            BenchEntry::new(Group::Scenario, name.clone(), "", move |_| {
                Ok(Box::new(Fake {
                    name: name.clone(),
                    log: Arc::clone(&log),
                    runs: 0,
                    fails_at,
                }))
            })
        })
        .collect()
}

fn measure(entries: &[BenchEntry], limit: CommandLimit, plan: BenchPlan) -> Record {
    let record = Mutex::new(Record::of(entries));
    run(
        entries,
        &options(limit),
        &plan,
        &record,
        &mut SilentObserver,
    );
    record.into_inner()
}

/// A plan without calibration.
fn fixed(runs: u32, warmup: u32) -> BenchPlan {
    BenchPlan {
        ops: Some(1),
        ..plan(runs, warmup)
    }
}

fn plan(runs: u32, warmup: u32) -> BenchPlan {
    BenchPlan {
        runs,
        warmup,
        min_time: Duration::from_millis(1),
        ops: None,
        budget: None,
        seed: 42,
        ..BenchPlan::default()
    }
}

#[test]
fn all_subjects_have_the_operations_of_the_slowest_if_the_plan_says_so() {
    let log = Log::default();
    let plan = BenchPlan {
        same_ops: Some((16, 64)),
        events: true,
        ..plan(2, 0)
    };
    let record = measure(
        &entries(&["a", "b"], &log, None),
        CommandLimit::none(),
        plan,
    );
    for series in &record.series {
        assert_eq!(series.ops_per_run(), 16);
        assert!(series.samples.iter().all(|sample| sample.ops == 16));
    }
    // Each event is counted or has its reason.
    assert_eq!(record.events.len(), 4);
    let counted = record.events.iter().filter(|event| event.scope.is_some());
    assert_eq!(counted.count(), record.series[0].samples[0].events.len());
}

#[test]
fn a_used_up_budget_leaves_the_fewest_runs_that_make_a_spread() {
    let log = Log::default();
    let plan = BenchPlan {
        budget: Some(Duration::ZERO),
        ..plan(30, 0)
    };
    let record = measure(
        &entries(&["a", "b"], &log, None),
        CommandLimit::none(),
        plan,
    );
    assert!(
        record
            .series
            .iter()
            .all(|series| series.samples.len() == 10)
    );
    assert_eq!(record.stopped, None);
}

#[test]
fn every_round_runs_every_subject_once() {
    let log = Log::default();
    let entries = entries(&["a", "b", "c"], &log, None);
    let record = measure(&entries, CommandLimit::none(), fixed(20, 2));
    assert!(
        record
            .series
            .iter()
            .all(|series| series.samples.len() == 20)
    );
    let log = log.lock();
    assert_eq!(log.len(), 3 * 22);
    for round in log.chunks(3) {
        let mut names = round.to_vec();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }
}

#[test]
fn no_subject_always_follows_the_same_one_nor_itself() {
    let log = Log::default();
    let entries = entries(&["a", "b", "c"], &log, None);
    measure(&entries, CommandLimit::none(), fixed(50, 0));
    let log = log.lock();
    let followers = |name: &str| {
        let mut after: Vec<&String> = log
            .windows(2)
            .filter(|pair| pair[0] == name)
            .map(|pair| &pair[1])
            .collect();
        after.sort();
        after.dedup();
        after
    };
    assert_eq!(followers("a"), ["b", "c"]);
    assert_eq!(followers("b"), ["a", "c"]);
}

#[test]
fn a_seed_repeats_the_order() {
    let orders: Vec<Vec<String>> = (0..2)
        .map(|_| {
            let log = Log::default();
            measure(
                &entries(&["a", "b", "c"], &log, None),
                CommandLimit::none(),
                plan(9, 0),
            );
            log.lock().clone()
        })
        .collect();
    assert_eq!(orders[0], orders[1]);
}

#[test]
fn a_subject_that_fails_does_not_stop_the_others() {
    let log = Log::default();
    let entries = entries(&["a", "bad", "c"], &log, Some(4));
    let record = measure(&entries, CommandLimit::none(), plan(5, 0));
    assert_eq!(record.series[0].samples.len(), 5);
    assert_eq!(record.series[1].status, Status::Failed);
    assert_eq!(record.series[1].reason.as_deref(), Some("it broke"));
    assert!(record.series[1].samples.is_empty());
    assert_eq!(record.series[2].samples.len(), 5);
    assert_eq!(record.stopped, None);
}

#[test]
fn a_factory_that_skips_makes_a_skipped_row() {
    let entries = [BenchEntry::new(Group::Floor, "x", "", |_| {
        Err(SubjectError::Skipped("this host has one CPU".into()))
    })];
    let record = measure(&entries, CommandLimit::none(), plan(3, 0));
    assert_eq!(record.series[0].status, Status::Skipped);
    assert_eq!(
        record.series[0].reason.as_deref(),
        Some("this host has one CPU")
    );
}

#[test]
fn an_interrupt_stops_between_runs_and_keeps_samples() {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    struct Interrupts(u32);
    impl Subject for Interrupts {
        fn name(&self) -> &str {
            "x"
        }
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            self.0 += 1;
            INTERRUPTED.store(self.0 == 3, Ordering::Relaxed);
            Ok(RunSample {
                ops,
                elapsed_ns: 1e9,
                ..RunSample::default()
            })
        }
    }
    let entries = [BenchEntry::new(Group::Scenario, "x", "", |_| {
        Ok(Box::new(Interrupts(0)))
    })];
    let record = measure(
        &entries,
        CommandLimit::new(None, &INTERRUPTED),
        fixed(100, 0),
    );
    assert_eq!(record.stopped, Some(EarlyStop::Interrupted));
    assert_eq!(record.series[0].samples.len(), 3);
    assert_eq!(record.series[0].status, Status::Ok);
}

#[test]
fn a_subject_that_dies_of_the_interrupt_has_not_failed() {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    struct Dies(u32);
    impl Subject for Dies {
        fn name(&self) -> &str {
            "x"
        }
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            self.0 += 1;
            if self.0 < 3 {
                return Ok(RunSample {
                    ops,
                    elapsed_ns: 1e9,
                    ..RunSample::default()
                });
            }
            INTERRUPTED.store(true, Ordering::Relaxed);
            Err(SubjectError::failed("x", "the sandbox was killed"))
        }
    }
    let entries = [BenchEntry::new(Group::Scenario, "x", "", |_| {
        Ok(Box::new(Dies(0)))
    })];
    let record = measure(
        &entries,
        CommandLimit::new(None, &INTERRUPTED),
        fixed(100, 0),
    );
    assert_eq!(record.stopped, Some(EarlyStop::Interrupted));
    assert_eq!(record.series[0].status, Status::Ok);
    assert_eq!(record.series[0].samples.len(), 2);
}

#[test]
fn a_time_limit_of_nothing_measures_nothing_and_says_so() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let log = Log::default();
    let entries = entries(&["a"], &log, None);
    let limit = CommandLimit::new(Some(Duration::ZERO), &NEVER);
    let record = measure(&entries, limit, plan(3, 0));
    assert_eq!(record.stopped, Some(EarlyStop::TimedOut));
    assert_eq!(record.series[0].status, Status::Skipped);
    assert!(
        record.series[0]
            .reason
            .as_deref()
            .unwrap()
            .contains("time limit")
    );
}

/// A subject that ends at the time limit, and notes at its own end which row is being measured.
struct Ending {
    limit: CommandLimit,
    record: Arc<Mutex<Record>>,
    running: Arc<Mutex<Option<usize>>>,
}

impl Subject for Ending {
    fn name(&self) -> &str {
        "ending"
    }

    fn run(&mut self, _ops: u64) -> Result<RunSample, SubjectError> {
        assert_eq!(self.record.lock().running, Some(0));
        while self.limit.stop().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let subject = "ending".to_owned();
        Err(SubjectError::TimedOut { subject })
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        *self.running.lock() = self.record.lock().running;
    }
}

#[test]
fn no_row_is_measured_while_the_subjects_end_at_a_time_limit() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let limit = CommandLimit::new(Some(Duration::from_millis(100)), &NEVER);
    let record = Arc::new(Mutex::new(Record::default()));
    let running = Arc::new(Mutex::new(Some(0)));
    let (theirs, shared, seen) = (limit.clone(), Arc::clone(&record), Arc::clone(&running));
    let entries = vec![BenchEntry::new(Group::Scenario, "ending", "", move |_| {
        Ok(Box::new(Ending {
            limit: theirs.clone(),
            record: Arc::clone(&shared),
            running: Arc::clone(&seen),
        }))
    })];
    *record.lock() = Record::of(&entries);
    run(
        &entries,
        &options(limit),
        &fixed(1, 0),
        &record,
        &mut SilentObserver,
    );
    assert_eq!(*running.lock(), None);
    let reason = record.lock().series[0].reason.clone();
    assert!(reason.unwrap().contains("at the time limit"));
}

#[test]
fn a_sample_of_another_size_is_a_failure_and_not_a_number() {
    struct Liar;
    impl Subject for Liar {
        fn name(&self) -> &str {
            "liar"
        }
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            Ok(RunSample {
                ops: ops - 1,
                elapsed_ns: 1e9,
                ..RunSample::default()
            })
        }
    }
    let entries = [BenchEntry::new(Group::Scenario, "liar", "", |_| {
        Ok(Box::new(Liar))
    })];
    let record = measure(&entries, CommandLimit::none(), plan(3, 0));
    assert_eq!(record.series[0].status, Status::Failed);
}

#[test]
fn runs_that_calibration_left_too_short_grow_before_they_are_kept() {
    /// Its first runs say that an operation takes a hundred times as long as it does.
    struct Misjudged {
        runs: u32,
    }
    impl Subject for Misjudged {
        fn name(&self) -> &str {
            "misjudged"
        }
        #[allow(clippy::cast_precision_loss, reason = "few operations")]
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            self.runs += 1;
            let each = if self.runs <= 6 { 1e11 } else { 1e9 };
            Ok(RunSample {
                ops,
                elapsed_ns: each * ops as f64,
                ..RunSample::default()
            })
        }
    }
    let entry = BenchEntry::new(Group::Scenario, "misjudged", "", |_| {
        Ok(Box::new(Misjudged { runs: 0 }))
    });
    // Far more than the runs themselves can take on a busy host.
    let plan = BenchPlan {
        min_time: Duration::from_secs(1000),
        ..plan(4, 3)
    };
    let record = measure(&[entry], CommandLimit::none(), plan);
    let runs = &record.series[0].samples;
    assert_eq!(runs.len(), 4);
    for run in runs {
        assert!(run.elapsed_ns >= 0.5e12, "{run:?}");
    }
}

#[test]
fn after_a_stuck_row_the_unfinished_round_is_measured_again_by_all_others() {
    /// Each run takes as long as the rounds that were measured when it began.
    struct Rounds(Arc<Mutex<Vec<String>>>, &'static str);
    impl Subject for Rounds {
        fn name(&self) -> &str {
            self.1
        }
        #[allow(clippy::cast_precision_loss, reason = "few runs")]
        fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
            let mut log = self.0.lock();
            log.push(self.1.to_owned());
            let runs = log.iter().filter(|name| *name == self.1).count();
            Ok(RunSample {
                ops,
                elapsed_ns: runs as f64,
                ..RunSample::default()
            })
        }
    }
    let log = Log::default();
    let entries = ["a", "b", "stuck"].map(|name| {
        let log = Arc::clone(&log);
        BenchEntry::new(Group::Scenario, name, "", move |_| {
            Ok(Box::new(Rounds(Arc::clone(&log), name)))
        })
    });
    let record = Mutex::new(Record::of(&entries));
    run(
        &entries,
        &options(CommandLimit::none()),
        &fixed(3, 0),
        &record,
        &mut SilentObserver,
    );
    {
        // The third round ended at the stuck row: `a` has run in it, and `b` has not.
        let mut record = record.lock();
        record.series[1].samples.pop();
        record.series[2].give_up(Status::Failed, "it did not stop".to_owned());
    }
    run(
        &entries,
        &options(CommandLimit::none()),
        &fixed(5, 0),
        &record,
        &mut SilentObserver,
    );
    let record = record.into_inner();
    let elapsed = |series: usize| -> Vec<f64> {
        let samples = record.series[series].samples.iter();
        samples.map(|sample| sample.elapsed_ns).collect()
    };
    // Both ran three times before and three times after; the third run before counts for neither.
    assert_eq!(elapsed(0), [1.0, 2.0, 4.0, 5.0, 6.0]);
    assert_eq!(elapsed(1), [1.0, 2.0, 4.0, 5.0, 6.0]);
    assert_eq!(record.series[0].ns_per_op().len(), 5);
}
