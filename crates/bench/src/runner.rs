//! Runs subjects side by side: A B C, B C A, ..., not A A A, B B B.
//!
//! A host drifts (heat, neighbours, frequency), so subjects measured one after the other would in effect be measured on
//! different hosts. Each round runs every subject once, in a new random order, so that no subject always follows the
//! same one and inherits its caches and its heat.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use super::calibrate::{RunTime, calibrate, enlarge, fitting, same};
use super::marks::Marks;
use super::perf::PerfCounters;
use super::{
    BenchEntry, BenchPlan, CommandLimit, CpuTime, EarlyStop, Record, RunSample, Subject,
    SubjectError, SubjectOptions,
};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::chain;
use vmbell_report::Status;
use vmbell_statistics::Random;

/// How long the runner waits for SIGINT's flag after a failure. ^C reaches every process on the terminal, and this
/// process may notice that a sandbox died of it before its own handler has run.
const ECHO: Duration = Duration::from_millis(50);

/// A subject that still takes part.
struct LiveSubject {
    index: usize,
    name: String,
    subject: Box<dyn Subject>,
    ops: u64,
    /// How long the subject's last run took.
    last: RunTime,
}

/// Measures `entries` according to `plan`. `record`, which [`Record::of`] made from the same entries, is updated after
/// every run, so that another thread can report what is finished at any time. A record from an earlier call is
/// continued at its unfinished round, without the rows that were given up.
pub fn run(
    entries: &[BenchEntry],
    options: &SubjectOptions,
    plan: &BenchPlan,
    record: &Mutex<Record>,
    observer: &mut dyn Observer,
) {
    let mut runner = BenchRunner {
        options,
        plan,
        record,
        observer,
        random: Random::new(plan.seed),
        counters: PerfCounters::default(),
        begun: Instant::now(),
    };
    let outcome = runner.all(entries);
    let mut record = lock(record);
    record.running = None;
    if let Err(stop) = outcome {
        record.stop(stop);
    }
}

struct BenchRunner<'a> {
    options: &'a SubjectOptions,
    plan: &'a BenchPlan,
    record: &'a Mutex<Record>,
    observer: &'a mut dyn Observer,
    random: Random,
    /// Counters of the measuring thread and of all threads that subjects start.
    counters: PerfCounters,
    begun: Instant,
}

impl BenchRunner<'_> {
    fn all(&mut self, entries: &[BenchEntry]) -> Result<(), EarlyStop> {
        if self.plan.events {
            self.counters = PerfCounters::open();
            lock(self.record).events = self.counters.counted();
        }
        let mut live = self.prepare(entries)?;
        self.share_ops(&mut live);
        self.rounds(&mut live, BenchPhase::WarmUp, 0..self.plan.warmup)?;
        let done = lock(self.record).resume();
        self.rounds(&mut live, BenchPhase::Measure, done..self.plan.runs)?;
        match self.options.marks {
            Some(marks) => self.mark(&mut live, marks),
            None => Ok(()),
        }
    }

    /// Runs each subject between marks, in the order of the report. After a failure there are no further marks, so that
    /// no mark is taken for one of a different row.
    fn mark(&mut self, live: &mut [LiveSubject], marks: Marks) -> Result<(), EarlyStop> {
        live.sort_by_key(|one| one.index);
        marks.add();
        for one in live {
            self.check()?;
            if let Err(error) = self.mark_one(one, marks) {
                return self.lose(one.index, &one.name, &error);
            }
        }
        Ok(())
    }

    fn mark_one(&self, one: &mut LiveSubject, marks: Marks) -> Result<(), SubjectError> {
        lock(self.record).running = Some(one.index);
        let _running = self.options.limit.begin_run();
        marks.add();
        one.subject.run(one.ops)?;
        marks.add();
        one.subject.run(one.ops * 2)?;
        marks.add();
        Ok(())
    }

    fn prepare(&mut self, entries: &[BenchEntry]) -> Result<Vec<LiveSubject>, EarlyStop> {
        self.observer
            .phase(BenchPhase::Calibrate, entries.len() as u64);
        let mut live = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            self.check()?;
            if lock(self.record).series[index].reason.is_some() {
                continue;
            }
            match self.make(index, entry) {
                Ok(subject) => {
                    self.observer.step(entry.name(), None);
                    live.push(subject);
                }
                Err(error) => self.lose(index, entry.name(), &error)?,
            }
        }
        Ok(live)
    }

    /// Gives all subjects the same number of operations, if the plan asks for it.
    fn share_ops(&self, live: &mut [LiveSubject]) {
        let Some(bounds) = self.plan.same_ops.filter(|_| self.plan.ops.is_none()) else {
            return;
        };
        let fewest = live.iter().map(|one| one.ops).min().unwrap_or_default();
        let ops = same(fewest, bounds);
        for one in live {
            one.ops = ops;
        }
    }

    /// Gives more operations to the subjects whose last run was too short, because something else filled the runs that
    /// calibrated them.
    fn enlarge(&self, live: &mut [LiveSubject]) {
        if self.plan.ops.is_some() {
            return;
        }
        for one in live.iter_mut() {
            one.ops = enlarge(one.ops, one.last, self.plan.min_time);
        }
        self.share_ops(live);
    }

    fn make(&mut self, index: usize, entry: &BenchEntry) -> Result<LiveSubject, SubjectError> {
        lock(self.record).running = Some(index);
        let running = self.options.limit.begin_run();
        let mut subject = entry.subject(self.options)?;
        drop(running);
        lock(self.record).series[index].setting = subject.setting();
        let limit = &self.options.limit;
        let ops = match (self.plan.ops, self.plan.most_time) {
            // An entry that rests spends most of its time resting, and limits its operations itself.
            (Some(ops), _) if entry.most_ops() < ops => entry.most_ops(),
            (Some(ops), Some(time)) => fitting(subject.as_mut(), ops, time, limit)?,
            (Some(ops), None) => ops,
            (None, _) => calibrate(subject.as_mut(), self.plan.min_time, limit)?,
        };
        Ok(LiveSubject {
            index,
            name: entry.name().to_owned(),
            subject,
            ops,
            last: RunTime::default(),
        })
    }

    fn rounds(
        &mut self,
        live: &mut Vec<LiveSubject>,
        phase: BenchPhase,
        rounds: Range<u32>,
    ) -> Result<(), EarlyStop> {
        self.observer
            .phase(phase, rounds.len() as u64 * live.len() as u64);
        for round in rounds {
            if phase == BenchPhase::Measure && self.is_used_up(round) {
                break;
            }
            let previous = live.last().map(|last| last.index);
            self.random.shuffle(live);
            // The last subject of a round must not be the first of the next one, where it would follow
            // itself. With two subjects this rule would always let the same one go first, which is
            // worse.
            if live.len() > 2 && live.first().map(|first| first.index) == previous {
                live.swap(0, 1);
            }
            let mut lost = Vec::new();
            for subject in live.iter_mut() {
                self.check()?;
                if let Err(error) = self.one(subject, phase) {
                    self.lose(subject.index, &subject.name, &error)?;
                    lost.push(subject.index);
                }
            }
            live.retain(|subject| !lost.contains(&subject.index));
            // Runs that must have the same number of operations keep it once samples count.
            if phase == BenchPhase::WarmUp || self.plan.same_ops.is_none() {
                self.enlarge(live);
            }
        }
        Ok(())
    }

    fn one(&mut self, live: &mut LiveSubject, phase: BenchPhase) -> Result<(), SubjectError> {
        lock(self.record).running = Some(live.index);
        let _running = self.options.limit.begin_run();
        let others = live.subject.processes();
        let unread = |error| SubjectError::failed(&live.name, error);
        let counted = self.counters.read().map_err(unread)?;
        let before = CpuTime::so_far(&others);
        let started = Instant::now();
        let mut sample = live.subject.run(live.ops)?;
        let wall = started.elapsed();
        let cpu_time = CpuTime::so_far(&others).since(before);
        let events = self.counters.since(&counted).map_err(unread)?;
        sample.events.extend(events);
        check_sample(&live.name, live.ops, &sample)?;
        self.observer.step(&live.name, Some(&sample));
        live.last = RunTime {
            elapsed_ns: sample.elapsed_ns,
            wall,
        };
        if phase == BenchPhase::Measure {
            lock(self.record).series[live.index].push(sample, cpu_time);
        }
        Ok(())
    }

    /// Takes a subject out, or ends the whole measurement if the command's limit ended the subject.
    fn lose(&mut self, index: usize, name: &str, error: &SubjectError) -> Result<(), EarlyStop> {
        if matches!(error, SubjectError::Failed { .. }) {
            thread::sleep(ECHO);
        }
        let stop = self.options.limit.stop();
        let (status, reason) = match error {
            SubjectError::Skipped(reason) => (Status::Skipped, reason.clone()),
            _ if stop == Some(EarlyStop::Interrupted) => {
                return Err(self.stop(EarlyStop::Interrupted));
            }
            SubjectError::TimedOut { .. } if stop.is_none() => {
                (Status::Failed, overtime(&self.options.limit))
            }
            SubjectError::TimedOut { .. } => {
                let mut record = lock(self.record);
                let series = &mut record.series[index];
                if series.samples.is_empty() {
                    series.give_up(Status::Failed, chain(error));
                }
                drop(record);
                return Err(self.stop(EarlyStop::TimedOut));
            }
            // The row already has the subject's name.
            SubjectError::Failed { source, .. } => (Status::Failed, chain(source.as_ref())),
        };
        self.observer.lost(name, status, &reason);
        lock(self.record).series[index].give_up(status, reason);
        Ok(())
    }

    fn is_used_up(&self, rounds: u32) -> bool {
        let budget = self.plan.budget;
        rounds >= BenchPlan::MIN_RUNS && budget.is_some_and(|budget| self.begun.elapsed() >= budget)
    }

    fn check(&self) -> Result<(), EarlyStop> {
        let stop = self.options.limit.stop();
        stop.map_or(Ok(()), |stop| Err(self.stop(stop)))
    }

    /// Marks that no run is under way any more. All subjects end now, and no row is blamed for how long that takes.
    fn stop(&self, stop: EarlyStop) -> EarlyStop {
        lock(self.record).running = None;
        stop
    }
}

/// Refuses a sample with a different number of operations or without a valid time: it would yield a wrong number.
fn check_sample(name: &str, ops: u64, sample: &RunSample) -> Result<(), SubjectError> {
    if sample.ops == ops && sample.elapsed_ns.is_finite() && sample.elapsed_ns >= 0.0 {
        return Ok(());
    }
    Err(SubjectError::failed(
        name,
        format!(
            "{} operations in {} ns came back from a run of {ops}",
            sample.ops, sample.elapsed_ns
        ),
    ))
}

/// The reason of a row that failed because a run exceeded the time limit, and what the user can do.
pub fn overtime(limit: &CommandLimit) -> String {
    let timeout = limit.run_timeout().unwrap_or_default();
    format!(
        "one run took longer than {timeout:?}: allow more (--run-timeout) if this host is slow, \
         otherwise leave the row out or try another backend (--backend)"
    )
}

/// Locks the record even if another holder panicked: each change of a row is a single step.
fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock()
}

/// What the runner is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchPhase {
    /// Making the subjects, and finding how many operations fill a run.
    Calibrate,
    /// Runs whose samples are thrown away.
    WarmUp,
    /// Runs whose samples are kept.
    Measure,
}

/// Called at every step, on the measuring thread and outside the timed part.
pub trait Observer {
    /// A phase of `steps` steps begins.
    fn phase(&mut self, _phase: BenchPhase, _steps: u64) {}

    /// A step of the phase is over; `sample` is what it measured, if anything.
    fn step(&mut self, _name: &str, _sample: Option<&RunSample>) {}

    /// The subject `name` is no longer measured, for `reason`.
    fn lost(&mut self, _name: &str, _status: Status, _reason: &str) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {}

#[cfg(test)]
#[path = "runner_test.rs"]
mod tests;
