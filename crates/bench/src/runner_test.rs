//! Tests of the runner with subjects that take no time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::{CommandLimit, SilentObserver, TickClock};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::Group;
use vmbell_report::Timing;

/// What a double does in a run, given the run's number and its number of operations.
type Run = Arc<dyn Fn(u32, u64) -> Result<RunSample, SubjectError> + Send + Sync>;

struct SubjectDouble {
    name: String,
    runs: u32,
    run: Run,
}

impl Subject for SubjectDouble {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        self.runs += 1;
        (self.run)(self.runs, ops)
    }
}

fn entry(
    name: &str,
    run: impl Fn(u32, u64) -> Result<RunSample, SubjectError> + Send + Sync + 'static,
) -> BenchEntry {
    let (name, run): (_, Run) = (name.to_owned(), Arc::new(run));
    BenchEntry::new(Group::Scenario, name.clone(), "", move |_| {
        let (name, run) = (name.clone(), Arc::clone(&run));
        Ok(Box::new(SubjectDouble { name, runs: 0, run }))
    })
}

/// The sample of a run that took `elapsed_ns`.
fn sample(ops: u64, elapsed_ns: f64) -> Result<RunSample, SubjectError> {
    Ok(RunSample {
        ops,
        elapsed_ns,
        light: Some(ops),
        ..RunSample::default()
    })
}

type Log = Arc<Mutex<Vec<String>>>;

/// Doubles that note each of their runs.
fn entries(names: &[&str], log: &Log) -> Vec<BenchEntry> {
    let one = |name: &&str| {
        let (noted, log) = ((*name).to_owned(), Arc::clone(log));
        entry(name, move |_, ops| {
            log.lock().push(noted.clone());
            sample(ops, 1e9)
        })
    };
    names.iter().map(one).collect()
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

/// Measures what the record lacks.
fn go_on(entries: &[BenchEntry], limit: CommandLimit, plan: &BenchPlan, record: &Mutex<Record>) {
    run(entries, &options(limit), plan, record, &mut SilentObserver);
}

fn measure_within(limit: CommandLimit, entries: &[BenchEntry], plan: &BenchPlan) -> Record {
    let record = Mutex::new(Record::of(entries));
    go_on(entries, limit, plan, &record);
    record.into_inner()
}

fn measure(entries: &[BenchEntry], plan: &BenchPlan) -> Record {
    measure_within(CommandLimit::none(), entries, plan)
}

/// The number of samples of each row.
fn counts(record: &Record) -> Vec<usize> {
    let series = record.series.iter();
    series.map(|series| series.samples.len()).collect()
}

fn outcome(record: &Record, row: usize) -> (Status, &str) {
    let series = &record.series[row];
    (series.status, series.reason.as_deref().unwrap_or_default())
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

/// A plan without calibration.
fn fixed(runs: u32, warmup: u32) -> BenchPlan {
    BenchPlan {
        ops: Some(1),
        ..plan(runs, warmup)
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn all_subjects_have_the_operations_of_the_slowest_if_the_plan_says_so() {
    let plan = BenchPlan {
        same_ops: Some((16, 64)),
        events: true,
        ..plan(2, 0)
    };
    let record = measure(&entries(&["a", "b"], &Log::default()), &plan);
    for series in &record.series {
        assert_eq!(series.ops_per_run(), 16);
        assert!(series.samples.iter().all(|sample| sample.ops == 16));
    }
    // Each event is either counted or has a reason.
    assert_eq!(record.events.len(), 4);
    let counted = record.events.iter().filter(|event| event.scope.is_some());
    assert_eq!(counted.count(), record.series[0].samples[0].events.len());
}

#[test]
fn a_used_up_budget_leaves_the_fewest_runs_that_make_a_spread() {
    let plan = BenchPlan {
        budget: Some(Duration::ZERO),
        ..plan(30, 0)
    };
    let record = measure(&entries(&["a", "b"], &Log::default()), &plan);
    assert_eq!((counts(&record), record.stopped), (vec![10, 10], None));
}

#[test]
fn every_round_runs_every_subject_once_and_none_always_after_the_same_one_or_itself() {
    let log = Log::default();
    let entries = entries(&["a", "b", "c"], &log);
    assert_eq!(counts(&measure(&entries, &fixed(50, 2))), [50; 3]);
    let log = log.lock();
    assert_eq!(log.len(), 3 * 52);
    for round in log.chunks(3) {
        let mut names = round.to_vec();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }
    for (name, others) in [("a", ["b", "c"]), ("b", ["a", "c"]), ("c", ["a", "b"])] {
        let pairs = log.windows(2).filter(|pair| pair[0] == name);
        let followers: BTreeSet<&str> = pairs.map(|pair| pair[1].as_str()).collect();
        assert_eq!(followers, BTreeSet::from(others), "after {name}");
    }
}

#[test]
fn a_seed_repeats_the_order() {
    let order = |plan: &BenchPlan| {
        let log = Log::default();
        measure(&entries(&["a", "b", "c"], &log), plan);
        log.lock().clone()
    };
    assert_eq!(order(&plan(9, 0)), order(&plan(9, 0)));
}

#[test]
fn a_subject_that_fails_or_lies_or_is_skipped_does_not_stop_the_others() {
    let mut entries = entries(&["a", "c"], &Log::default());
    entries.push(entry("breaks", |run, ops| match run {
        4 => Err(SubjectError::failed("breaks", "it broke")),
        _ => sample(ops, 1e9),
    }));
    // A sample with a different number of operations is a failure.
    entries.push(entry("lies", |_, ops| sample(ops - 1, 1e9)));
    let one_cpu = "this host has one CPU";
    entries.push(BenchEntry::new(Group::Floor, "skipped", "", |_| {
        Err(SubjectError::Skipped(one_cpu.into()))
    }));
    let record = measure(&entries, &plan(5, 0));
    assert_eq!(counts(&record), [5, 5, 0, 0, 0]);
    assert_eq!(outcome(&record, 2), (Status::Failed, "it broke"));
    assert_eq!(record.series[3].status, Status::Failed);
    assert_eq!(outcome(&record, 4), (Status::Skipped, one_cpu));
    assert_eq!(record.stopped, None);
}

#[test]
fn a_run_without_a_time_or_with_other_operations_fails_and_tells_what_came_back() {
    for (ops, elapsed_ns, told) in [
        (8, 0.0, None),
        (8, 1e9, None),
        (7, 1e9, Some("7 operations in 1000000000 ns")),
        (9, 1e9, Some("9 operations in 1000000000 ns")),
        (8, -1.0, Some("8 operations in -1 ns")),
        (8, f64::NAN, Some("8 operations in NaN ns")),
        (8, f64::INFINITY, Some("8 operations in inf ns")),
    ] {
        let plan = BenchPlan {
            ops: Some(8),
            ..plan(1, 0)
        };
        let record = measure(&[entry("x", move |_, _| sample(ops, elapsed_ns))], &plan);
        let told = told.map(|told| format!("{told} came back from a run of 8"));
        assert_eq!(record.series[0].reason, told);
        assert_eq!(counts(&record), [usize::from(told.is_none())]);
    }
}

/// The interrupt comes in the third run.
#[test]
fn an_interrupt_stops_between_runs_keeps_samples_and_is_no_failure_of_what_dies_of_it() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    static DIES: AtomicBool = AtomicBool::new(false);
    for (interrupted, dies, samples) in [(&ENDS, false, 3), (&DIES, true, 2)] {
        let entry = entry("x", move |run, ops| {
            interrupted.store(run == 3, Ordering::Relaxed);
            match dies && run == 3 {
                true => Err(SubjectError::failed("x", "the sandbox was killed")),
                false => sample(ops, 1e9),
            }
        });
        let limit = CommandLimit::new(None, interrupted);
        let record = measure_within(limit, &[entry], &fixed(100, 0));
        assert_eq!(record.stopped, Some(EarlyStop::Interrupted));
        assert_eq!(counts(&record), [samples], "dies: {dies}");
        assert_eq!(record.series[0].status, Status::Ok, "dies: {dies}");
    }
}

#[test]
fn a_time_limit_of_nothing_measures_nothing_and_says_so() {
    let limit = CommandLimit::new(Some(Duration::ZERO), &NEVER);
    let record = measure_within(limit, &entries(&["a"], &Log::default()), &plan(3, 0));
    assert_eq!(record.stopped, Some(EarlyStop::TimedOut));
    let (status, reason) = outcome(&record, 0);
    assert_eq!(status, Status::Skipped);
    assert!(reason.contains("time limit"), "{reason}");
}

/// A subject that ends at the time limit, and then notes which row is being measured.
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
    go_on(&entries, limit, &fixed(1, 0), &record);
    assert_eq!(*running.lock(), None);
    let reason = record.lock().series[0].reason.clone();
    assert!(reason.unwrap().contains("at the time limit"));
}

#[test]
fn runs_that_calibration_left_too_short_grow_before_they_are_kept() {
    // In the first runs of this entry, an operation appears to take a hundred times longer than it does.
    #[allow(clippy::cast_precision_loss, reason = "few operations")]
    let entry = entry("misjudged", |run, ops| {
        let each = if run <= 6 { 1e11 } else { 1e9 };
        sample(ops, each * ops as f64)
    });
    // Far more than the runs themselves can take on a busy host.
    let plan = BenchPlan {
        min_time: Duration::from_secs(1000),
        ..plan(4, 3)
    };
    let record = measure(&[entry], &plan);
    assert_eq!(counts(&record), [4]);
    for run in &record.series[0].samples {
        assert!(run.elapsed_ns >= 0.5e12, "{run:?}");
    }
}

#[test]
fn after_a_stuck_row_the_unfinished_round_is_measured_again_by_all_others() {
    // A row's n-th run takes n nanoseconds, counted over all measurements.
    let entries = ["a", "b", "stuck"].map(|name| {
        let runs = AtomicU32::new(0);
        entry(name, move |_, ops| {
            sample(ops, f64::from(runs.fetch_add(1, Ordering::Relaxed) + 1))
        })
    });
    let record = Mutex::new(Record::of(&entries));
    go_on(&entries, CommandLimit::none(), &fixed(3, 0), &record);
    {
        // The third round ended at the stuck row: `a` has already run in it, and `b` has not.
        let mut record = record.lock();
        record.series[1].samples.pop();
        record.series[2].give_up(Status::Failed, "it did not stop".to_owned());
    }
    go_on(&entries, CommandLimit::none(), &fixed(5, 0), &record);
    let record = record.into_inner();
    // Both rows ran three times before the interruption and three times after it. The third run before it was dropped.
    for series in &record.series[..2] {
        let elapsed: Vec<f64> = series.samples.iter().map(|one| one.elapsed_ns).collect();
        assert_eq!(elapsed, [1.0, 2.0, 4.0, 5.0, 6.0], "{}", series.name);
    }
    assert_eq!(record.series[0].ns_per_op().len(), 5);
}
