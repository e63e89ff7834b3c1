//! Watches the measuring thread, so that the command makes a report even if a measurement never returns.
//!
//! Guests are created, run and dropped on their own thread. The calling thread waits until that thread ends, or until
//! it exceeds a limit by a grace time. If it exceeds the limit of a single run, another thread measures the other rows.
//! If it exceeds the command's limit, the process ends while the thread still exists; sandboxes die with their parent.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::confine;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_bench::{
    BenchEntry, BenchPhase, BenchPlan, CommandLimit, EarlyStop, Observer, Record, RunSample,
    SampleSeries, SubjectOptions,
};
use vmbell_report::Status;

/// How long a measurement may take to end after its limit was reached.
const GRACE: Duration = Duration::from_millis(1500);

/// The reason of a row whose subject took longer than [`GRACE`] to end.
const STUCK: &str = "did not stop on request";

/// How often the limit is checked: rarely enough not to disturb the measurement.
const LOOK: Duration = Duration::from_millis(100);

/// Measures `entries` on another thread, and returns the record when that thread or a limit ends.
pub(crate) fn supervise(
    entries: Vec<BenchEntry>,
    mut options: SubjectOptions,
    plan: BenchPlan,
    observer: impl Observer + Send + 'static,
) -> Result<Record> {
    let (entries, observer) = (
        Arc::new(entries),
        SharedObserver(Arc::new(Mutex::new(observer))),
    );
    let mut record = Record::of(&entries);
    loop {
        // A thread that was left running keeps its own limit and record, so it has no effect here.
        options.limit = options.limit.of_other_runs();
        let shared = Arc::new(Mutex::new(record));
        let ended = measure(&entries, &options, plan, &shared, &observer)?;
        let end = wait(&ended, &options.limit);
        record = snapshot(&shared);
        match end {
            ThreadEnd::Returned => {
                give_up_running(&mut record, "its thread panicked");
                return Ok(record);
            }
            ThreadEnd::Stopped(stop) => {
                give_up_running(&mut record, STUCK);
                record.stop(stop);
                return Ok(record);
            }
            ThreadEnd::Stuck => {
                let why = vmbell_bench::overtime(&options.limit);
                let Some(series) = running(&mut record) else {
                    continue;
                };
                let why = format!("{STUCK}; {why}");
                observer.lock().lost(&series.name, Status::Failed, &why);
                series.give_up(Status::Failed, why);
            }
        }
    }
}

/// Starts a thread that measures the rows that `record` lacks.
fn measure(
    entries: &Arc<Vec<BenchEntry>>,
    options: &SubjectOptions,
    plan: BenchPlan,
    record: &Arc<Mutex<Record>>,
    observer: &SharedObserver<impl Observer + Send + 'static>,
) -> Result<Receiver<()>> {
    let (entries, options) = (Arc::clone(entries), options.clone());
    let (record, mut observer) = (Arc::clone(record), observer.clone());
    // Nothing is ever sent: the channel closes when the thread ends, even after a panic.
    let (alive, ended) = mpsc::channel::<()>();
    thread::Builder::new()
        .name("bench".to_owned())
        .spawn(move || {
            let _alive = alive;
            if let Err(error) = confine::measuring_thread() {
                eprintln!("warning: {error:#}");
            }
            vmbell_bench::run(&entries, &options, &plan, &record, &mut observer);
        })
        .context("cannot start the measuring thread")?;
    Ok(ended)
}

/// How waiting for the measuring thread ended.
enum ThreadEnd {
    Returned,
    /// An interrupt or the command's time limit was reached, and the thread may still exist.
    Stopped(EarlyStop),
    /// The thread still runs, long after its run should have ended.
    Stuck,
}

fn wait(ended: &Receiver<()>, limit: &CommandLimit) -> ThreadEnd {
    let mut told = None;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if let Some(stop) = limit.stop() {
            if told.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                return ThreadEnd::Stopped(stop);
            }
        } else if limit.overtime().is_some_and(|overtime| overtime >= GRACE) {
            return ThreadEnd::Stuck;
        }
    }
    ThreadEnd::Returned
}

/// An observer that several measuring threads share; only one of them measures at a time.
struct SharedObserver<O>(Arc<Mutex<O>>);

impl<O> Clone for SharedObserver<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O> SharedObserver<O> {
    fn lock(&self) -> MutexGuard<'_, O> {
        self.0.lock()
    }
}

impl<O: Observer> Observer for SharedObserver<O> {
    fn phase(&mut self, phase: BenchPhase, steps: u64) {
        self.lock().phase(phase, steps);
    }

    fn step(&mut self, name: &str, sample: Option<&RunSample>) {
        self.lock().step(name, sample);
    }

    fn lost(&mut self, name: &str, status: Status, reason: &str) {
        self.lock().lost(name, status, reason);
    }
}

fn snapshot(record: &Mutex<Record>) -> Record {
    record.lock().clone()
}

/// Marks the row that was being measured as failed, unless it has a sample.
fn give_up_running(record: &mut Record, reason: &str) {
    if let Some(series) = running(record).filter(|series| series.samples.is_empty()) {
        series.give_up(Status::Failed, reason.to_owned());
    }
}

fn running(record: &mut Record) -> Option<&mut SampleSeries> {
    record
        .running
        .and_then(|index| record.series.get_mut(index))
}
