//! The progress bar, on stderr and only on a terminal. In the lab, it is progress records for the lab's own bar.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use vmbell_bench::timing::is_in_lab;
use vmbell_bench::{BenchPhase, BenchPlan, Observer, RunSample};
use vmbell_lab::{TimeLeft, progress_bar, record, style};
use vmbell_report::Status;
use vmbell_report::units;

/// The phases before the measurement show no time left, because their duration says nothing about the measurement.
const BEFORE: &str = "{prefix:<10} [{bar:30}] {pos}/{len}  {wide_msg}";
const MEASURE: &str = "{prefix:<10} [{bar:30}] {pos}/{len}{left}  {wide_msg}";

/// A progress bar, drawn between runs on the measuring thread. A thread that redraws it by a timer would take CPU time
/// from the measurement.
#[derive(Debug)]
pub(crate) struct BenchProgress {
    bar: ProgressBar,
    records: Option<ProgressRecords>,
    begun: Instant,
    /// The time after which no round begins, and the number of rounds that are planned.
    budget: Option<(Duration, u32)>,
}

/// Progress records for the lab. They are written even if the lab shows no bar, so that instruction counts are the
/// same.
#[derive(Debug)]
struct ProgressRecords {
    phase: BenchPhase,
    /// Runs of each row, after its calibration.
    runs: u64,
    done: u64,
    all: u64,
}

impl ProgressRecords {
    /// Tells the lab that this many steps are done, the last of them with this row.
    fn step(&mut self, steps: u64, name: &str) {
        self.done += steps;
        let record = record(self.done, self.all, name);
        // A failed write must not fail the measurement.
        let _ = io::stderr().write_all(record.as_bytes());
    }
}

impl BenchProgress {
    /// The progress of a measurement with this number of runs per row, after a calibration. Shows nothing unless
    /// `shown`.
    pub(crate) fn new(shown: bool, runs: u32) -> Self {
        Self {
            records: (shown && is_in_lab()).then(|| ProgressRecords {
                phase: BenchPhase::Measure,
                runs: runs.into(),
                done: 0,
                all: 0,
            }),
            bar: progress_bar(shown, BEFORE),
            begun: Instant::now(),
            budget: None,
        }
    }

    /// The progress of this plan, whose budget may end it early.
    pub(crate) fn of(shown: bool, plan: &BenchPlan) -> Self {
        let mut progress = Self::new(shown, plan.warmup + plan.runs);
        progress.budget = plan.budget.map(|budget| (budget, plan.runs));
        progress
    }

    /// The estimate for the measurement, which has this number of steps.
    fn time_left(&self, steps: u64) -> TimeLeft {
        match self.budget {
            None => TimeLeft::default(),
            Some((budget, runs)) => {
                let rows = steps / u64::from(runs.max(1));
                let time = budget.saturating_sub(self.begun.elapsed());
                TimeLeft::default().within(time, rows * u64::from(BenchPlan::MIN_RUNS))
            }
        }
    }

    /// Like [`new`](Self::new), without a bar.
    pub(crate) fn without_bar(shown: bool, runs: u32) -> Self {
        let mut progress = Self::new(shown, runs);
        progress.bar = ProgressBar::hidden();
        progress
    }
}

impl Observer for BenchProgress {
    fn phase(&mut self, phase: BenchPhase, steps: u64) {
        self.bar.set_prefix(match phase {
            BenchPhase::Calibrate => "Calibrate",
            BenchPhase::WarmUp => "Warm up",
            BenchPhase::Measure => "Measure",
        });
        self.bar.set_length(steps);
        self.bar.set_position(0);
        self.bar.set_style(match phase {
            BenchPhase::Calibrate | BenchPhase::WarmUp => style(BEFORE, TimeLeft::default()),
            BenchPhase::Measure => style(MEASURE, self.time_left(steps)),
        });
        self.bar.tick();
        if let Some(records) = &mut self.records {
            records.phase = phase;
            match phase {
                BenchPhase::Calibrate => records.all = steps * (1 + records.runs),
                BenchPhase::WarmUp => {}
                BenchPhase::Measure => records.all = records.done + steps,
            }
        }
    }

    fn step(&mut self, name: &str, sample: Option<&RunSample>) {
        self.bar.set_message(match sample {
            Some(sample) => format!("{name} {}", units::time(sample.ns_per_op())),
            None => name.to_owned(),
        });
        self.bar.inc(1);
        if let Some(records) = &mut self.records {
            records.step(1, name);
        }
    }

    fn lost(&mut self, name: &str, status: Status, reason: &str) {
        // Rows that were skipped are in the report, if it shows their backend.
        if status != Status::Skipped {
            self.bar
                .println(format!("{name} {}: {reason}", status.name()));
        }
        self.bar.inc(1);
        if let Some(records) = &mut self.records {
            // A row that cannot be set up has no runs.
            let runs = match records.phase {
                BenchPhase::Calibrate => records.runs,
                BenchPhase::WarmUp | BenchPhase::Measure => 0,
            };
            records.step(1 + runs, name);
        }
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
