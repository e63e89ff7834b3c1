//! What has been measured so far: one series for each entry, whatever became of it.

use hdrhistogram::Histogram;

use super::{CpuTime, Entry, Remarks, Sample, Setting, Stop};
use vmbell_report::{Counted, Group, Status};

/// The samples of one entry, which become a row of the report.
#[derive(Clone, Debug)]
pub struct Series {
    /// The entry's name.
    pub name: String,
    /// What it is for.
    pub group: Group,
    /// The entry that it is compared with.
    pub reference: Option<String>,
    /// What became of it; skipped until it has a sample.
    pub status: Status,
    /// Why it was not measured.
    pub reason: Option<String>,
    /// Where and how it ran.
    pub setting: Setting,
    /// Operations of each run.
    pub ops_per_run: u64,
    /// One a run, in the order of rounds; their latencies are in `latencies`.
    pub samples: Vec<Sample>,
    /// Nanoseconds per operation of each run.
    per_op: Vec<f64>,
    /// All single latencies, where the subject times each operation by itself.
    pub latencies: Option<Histogram<u64>>,
    /// What the entry says of itself.
    pub remarks: Remarks,
    /// CPU time of each run.
    cpu_times: Vec<CpuTime>,
}

impl Series {
    /// A series with nothing in it.
    pub fn new(name: &str, group: Group, reference: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            group,
            reference: reference.map(str::to_owned),
            status: Status::Skipped,
            reason: None,
            setting: Setting::default(),
            ops_per_run: 0,
            samples: Vec::new(),
            per_op: Vec::new(),
            latencies: None,
            remarks: Remarks::default(),
            cpu_times: Vec::new(),
        }
    }

    /// CPU time of all runs together.
    pub fn cpu_time(&self) -> CpuTime {
        let sum = |all: CpuTime, one| all.plus(one);
        self.cpu_times.iter().copied().fold(CpuTime::default(), sum)
    }

    /// Nanoseconds per operation of each run.
    pub fn ns_per_op(&self) -> Vec<f64> {
        self.per_op.clone()
    }

    /// Takes one run in.
    pub fn push(&mut self, mut sample: Sample, cpu_time: CpuTime) {
        self.per_op.push(sample.ns_per_op());
        for ns in std::mem::take(&mut sample.latencies_ns) {
            let histogram = self
                .latencies
                .get_or_insert_with(|| Histogram::new(3).expect("invariant: 3 digits are valid"));
            histogram
                .record(ns)
                .expect("invariant: it grows by itself to hold any u64");
        }
        self.cpu_times.push(cpu_time);
        self.samples.push(sample);
        self.status = Status::Ok;
    }

    /// Keeps the first `runs` runs; single latencies are not taken apart.
    fn truncate(&mut self, runs: usize) {
        self.samples.truncate(runs);
        self.per_op.truncate(runs);
        self.cpu_times.truncate(runs);
    }

    /// Marks the series as not measured. One that has samples and was skipped later keeps them; one
    /// that failed does not: what it measured before cannot be trusted.
    pub fn give_up(&mut self, status: Status, reason: String) {
        if status == Status::Failed {
            self.truncate(0);
            self.latencies = None;
        }
        if self.samples.is_empty() {
            self.status = status;
            self.reason = Some(reason);
        }
    }
}

/// All series, in the order of the catalogue.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The series.
    pub series: Vec<Series>,
    /// Why measuring stopped before it was done.
    pub stopped: Option<Stop>,
    /// Which series is being measured right now.
    pub running: Option<usize>,
    /// The kernel's events that the plan asks for, and whether they are counted.
    pub events: Vec<Counted>,
}

impl Record {
    /// One empty series for each entry.
    pub fn of(entries: &[Entry]) -> Self {
        Self {
            series: entries
                .iter()
                .map(|entry| Series {
                    remarks: entry.remarks().clone(),
                    ..Series::new(entry.name(), entry.group(), entry.reference())
                })
                .collect(),
            ..Self::default()
        }
    }

    /// How many rounds have been measured to their end, by all that still take part.
    pub fn rounds(&self) -> u32 {
        let live = self.series.iter().filter(|series| series.reason.is_none());
        let fewest = live
            .map(|series| series.samples.len())
            .min()
            .unwrap_or_default();
        u32::try_from(fewest).unwrap_or(u32::MAX)
    }

    /// Forgets the runs of a round that not all came to, where rounds are to be compared whole.
    pub fn keep_whole_rounds(&mut self) {
        let live = self
            .series
            .iter()
            .filter(|one| one.status != Status::Failed);
        let whole = live.map(|one| one.samples.len()).min().unwrap_or_default();
        for one in &mut self.series {
            one.truncate(whole);
            if one.samples.is_empty() && one.reason.is_none() {
                let reason = "interrupted before the end of the first round";
                one.give_up(Status::Skipped, reason.to_owned());
            }
        }
    }

    /// Ends early: those without a sample say so.
    pub fn stop(&mut self, stop: Stop) {
        self.stopped = Some(stop);
        let reason = match stop {
            Stop::Interrupted => "interrupted before its first measured run",
            Stop::TimedOut => "the time limit ran out before its first measured run",
        };
        for series in &mut self.series {
            if series.samples.is_empty() && series.reason.is_none() {
                series.give_up(Status::Skipped, reason.to_owned());
            }
        }
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
