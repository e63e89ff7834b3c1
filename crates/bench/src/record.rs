//! The record of what has been measured so far: one series for each entry, measured or not.

use hdrhistogram::Histogram;

use super::{BenchEntry, CpuTime, EarlyStop, HOST, Remarks, RunSample, SubjectSetting};
use vmbell_report::{Counted, Group, Status};

/// The samples of one entry, which become a row of the report.
#[derive(Clone, Debug)]
pub struct SampleSeries {
    /// The entry's name.
    pub name: String,
    /// What one operation of the entry is.
    pub description: Option<String>,
    /// The entry's group.
    pub group: Group,
    /// The name of the backend that runs the entry's guest, or `host`.
    pub backend: &'static str,
    /// The name of the entry that this entry is compared with.
    pub reference: Option<String>,
    /// Whether the entry was measured; `Skipped` until it has a sample.
    pub status: Status,
    /// Why the entry was not measured.
    pub reason: Option<String>,
    /// Where and how the subject ran.
    pub setting: SubjectSetting,
    /// One sample for each run, in the order of rounds. Their single latencies are moved to `latencies`.
    pub samples: Vec<RunSample>,
    /// Nanoseconds per operation of each run.
    per_op: Vec<f64>,
    /// All single latencies in nanoseconds, if the subject times each operation by itself.
    pub latencies: Option<Histogram<u64>>,
    /// What the entry adds to its row of the report.
    pub remarks: Remarks,
    /// CPU time of each run.
    cpu_times: Vec<CpuTime>,
}

impl SampleSeries {
    /// A series without samples.
    pub fn new(name: &str, group: Group, reference: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            description: None,
            group,
            backend: HOST,
            reference: reference.map(str::to_owned),
            status: Status::Skipped,
            reason: None,
            setting: SubjectSetting::default(),
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

    /// Operations of the latest run; 0 if there is no run.
    pub fn ops_per_run(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.ops)
    }

    /// The time of the shortest run in nanoseconds; `None` if there is no run.
    pub fn shortest_run_ns(&self) -> Option<f64> {
        let times = self.samples.iter().map(|sample| sample.elapsed_ns);
        times.min_by(f64::total_cmp)
    }

    /// Adds one run.
    pub fn push(&mut self, mut sample: RunSample, cpu_time: CpuTime) {
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

    /// Keeps the first `runs` runs. All single latencies are kept, as they do not say which run they belong to.
    fn truncate(&mut self, runs: usize) {
        self.samples.truncate(runs);
        self.per_op.truncate(runs);
        self.cpu_times.truncate(runs);
    }

    /// Says why the series is not measured any further. A skipped series keeps its samples; a failed one loses them,
    /// since they cannot be trusted.
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
    /// The series of all entries.
    pub series: Vec<SampleSeries>,
    /// Why the measurement stopped early; `None` if it did not.
    pub stopped: Option<EarlyStop>,
    /// The index of the series that is currently being measured.
    pub running: Option<usize>,
    /// The kernel events that the plan asks for, with what the host counts of each.
    pub events: Vec<Counted>,
}

impl Record {
    /// One empty series for each entry.
    pub fn of(entries: &[BenchEntry]) -> Self {
        Self {
            series: entries
                .iter()
                .map(|entry| SampleSeries {
                    description: Some(entry.description().to_owned()),
                    remarks: entry.remarks().clone(),
                    backend: entry.backend(),
                    ..SampleSeries::new(entry.name(), entry.group(), entry.reference())
                })
                .collect(),
            ..Self::default()
        }
    }

    /// Drops the runs of a round that an earlier call did not finish, and returns how many rounds are left. The round
    /// is measured again, so that runs with the same index belong to the same round for all remaining entries.
    pub fn resume(&mut self) -> u32 {
        let is_live = |series: &SampleSeries| series.reason.is_none();
        let live = self.series.iter().filter(|series| is_live(series));
        let whole = live.map(|series| series.samples.len()).min();
        let whole = whole.unwrap_or_default();
        for series in self.series.iter_mut().filter(|series| is_live(series)) {
            series.truncate(whole);
        }
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Drops the runs of a round that not every entry has finished, so that all entries have the same rounds.
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

    /// Ends the record early: entries without a sample get `stop` as their reason.
    pub fn stop(&mut self, stop: EarlyStop) {
        self.stopped = Some(stop);
        let reason = match stop {
            EarlyStop::Interrupted => "interrupted before its first measured run",
            EarlyStop::TimedOut => "the time limit ran out before its first measured run",
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
