//! A row: what one entry measured, or why it was not measured.
//!
//! [`Times::of`] computes every statistic of a row from its samples, so that numbers mean the same in all suites.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::thousandths;
use super::{Counts, ExitReasons, Exits, seconds};
use vmbell_statistics::{Outliers, Summary, percentile};

/// With fewer runs than this, a row has no spread.
const MIN_SCATTER: usize = 3;

/// The result of one entry. Times are nanoseconds per operation, and seconds in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// The entry's name.
    pub command: String,
    /// What one operation is, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The entry's group.
    pub group: Group,
    /// The backend that ran the guest, or `host` where no guest took part.
    pub backend: String,
    /// What distinguishes the entry from similar entries, if its name does not say so.
    pub parameters: BTreeMap<String, String>,
    /// Where and how the entry ran.
    #[serde(flatten)]
    pub setting: Setting,
    /// Whether times say anything about hardware: false on an emulated CPU.
    pub timing_valid: bool,
    /// The name of the entry that this entry is compared with, whether that entry was measured or not.
    pub reference: Option<String>,
    /// What a reader must know to understand the row's numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The numbers, or why there are none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Where and how an entry ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// The spin policy of the entry's heavy exits; `None` if the entry cannot have heavy exits.
    pub spin: Option<String>,
    /// The CPUs that the entry's threads were pinned to, the measured side's first.
    pub cpus: Vec<usize>,
    /// The address space of a doorbell that the guest rings back to back by port I/O or MMIO; `None` for every other
    /// entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
}

/// The numbers of a row, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome {
    /// The entry was measured.
    #[serde(rename = "ok")]
    Measured(Box<Measured>),
    /// The host or the backend cannot run the entry, or the command stopped before.
    Skipped {
        /// Why the entry was skipped.
        reason: Option<String>,
    },
    /// The entry failed while it was set up or run.
    Failed {
        /// Why the entry failed.
        reason: Option<String>,
    },
}

/// The numbers of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// The times of all runs, and their statistics.
    #[serde(flatten)]
    pub times: Times,
    /// CPU time in user mode, per operation, of all processes that took part; `None` where it was not counted.
    #[serde(with = "seconds::optional")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub user: Option<f64>,
    /// CPU time in the kernel, per operation, of all processes that took part; `None` where it was not counted.
    #[serde(with = "seconds::optional")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub system: Option<f64>,
    /// Exits per operation; `None` where none were counted.
    pub exits: Option<Exits>,
    /// All exits by reason, including those that `exits` leaves out; `None` if the reasons were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_reasons: Option<ExitReasons>,
    /// Exits of L1's guests per operation, by the CPU's reasons, if the row was measured in a Linux inside L1; `None`
    /// if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_exits: Option<BTreeMap<String, f64>>,
    /// The bytes by which an operation increases the memory of all involved processes, while what it created exists; `None`
    /// if that was not measured.
    #[serde(
        rename = "memory_bytes",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub memory: Option<u64>,
    /// The bytes by which an operation increases the memory that the kernel uses for these processes, without page
    /// tables; `None` if that was not measured.
    #[serde(
        rename = "kernel_memory_bytes",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub kernel_memory: Option<u64>,
    /// What a reader must know to understand the row's exits, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_note: Option<String>,
    /// What the host or the backend counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Vec<u64>>"))]
    pub events: Counts,
    /// What the entry itself counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Vec<u64>>"))]
    pub counts: Counts,
    /// The comparison with the reference in time; `None` unless both were measured.
    pub ratio: Option<Ratio>,
    /// Ratios to the reference, other than the ratio of times: the ratios of `exits` or of an event, per operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratios: BTreeMap<String, Ratio>,
}

/// The time of one operation in each run, and the statistics of that. All are nanoseconds unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Times {
    /// The time of every run in the order of rounds, rounded to a thousandth of a nanosecond: index i of all entries of
    /// a report belongs to the same round.
    #[serde(flatten, with = "seconds::samples")]
    #[cfg_attr(test, schemars(with = "seconds::samples::WrittenSeconds<'_>"))]
    pub samples: Vec<f64>,
    /// Operations of every run: one number for each sample.
    pub ops: Vec<u64>,
    /// The mean over runs.
    #[serde(with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub mean: f64,
    /// The standard deviation over runs; `None` for a single run.
    #[serde(with = "seconds::optional")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub stddev: Option<f64>,
    /// The median over runs.
    #[serde(with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub median: f64,
    /// The time of the fastest run.
    #[serde(with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub min: f64,
    /// The time of the slowest run.
    #[serde(with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub max: f64,
    /// The percentiles.
    #[serde(rename = "percentiles_ns")]
    pub percentiles: Option<Percentiles>,
    /// Whether the percentiles are over runs or over single operations.
    pub percentiles_of: PercentilesOf,
    /// The median absolute deviation times 1.4826, as a share of the median; `None` with fewer than three runs.
    pub spread: Option<f64>,
    /// How many runs are more than ten robust standard deviations away from the median.
    pub outliers: u64,
    /// How far the outliers move the median, as a share of the median.
    pub outliers_shift: f64,
    /// The time of the shortest run as a whole, in seconds.
    pub shortest_run: Option<f64>,
    /// The shortest time of an operation that can be distinguished from zero; `None` if many operations are timed
    /// together. A median below it only means that the time is shorter.
    #[serde(
        rename = "resolution_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub resolution: Option<f64>,
    /// The median, if the unit of the report is instructions; written for people who read the file.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<f64>,
}

impl Times {
    /// Computes times from runs of `samples` nanoseconds per operation and `ops` operations; `None` without runs.
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    pub fn of(samples: &[f64], ops: Vec<u64>) -> Option<Self> {
        let summary = Summary::of(samples)?;
        let outliers = Outliers::of(samples);
        let runs = samples.iter().zip(&ops);
        let seconds = runs.map(|(ns, ops)| ns * *ops as f64 / 1e9);
        Some(Self {
            mean: summary.mean,
            stddev: summary.stddev,
            median: summary.median,
            min: summary.min,
            max: summary.max,
            percentiles: Percentiles::of(samples.len() as f64, |share| percentile(samples, share)),
            percentiles_of: PercentilesOf::Runs,
            spread: (samples.len() >= MIN_SCATTER).then(|| summary.relative_spread()),
            outliers: outliers.count as u64,
            outliers_shift: outliers.median_shift,
            shortest_run: seconds.min_by(f64::total_cmp),
            resolution: None,
            instructions: None,
            samples: samples.iter().copied().map(thousandths).collect(),
            ops,
        })
    }

    /// The resolution, if the median is below it.
    pub fn bound(&self) -> Option<f64> {
        self.resolution.filter(|least| self.median < *least)
    }

    /// The operations of all runs, if every run has the same number.
    pub fn ops_per_run(&self) -> Option<u64> {
        let first = self.ops.first()?;
        self.ops.iter().all(|ops| ops == first).then_some(*first)
    }
}

impl Measured {
    /// CPU time per operation, in user mode plus in the kernel, if it was counted.
    pub(super) fn cpu(&self) -> Option<f64> {
        Some(self.user? + self.system?)
    }

    /// Makes numbers that consist only of times.
    pub fn of(times: Times) -> Self {
        Self {
            times,
            user: None,
            system: None,
            exits: None,
            exit_reasons: None,
            l1_exits: None,
            memory: None,
            kernel_memory: None,
            exits_note: None,
            events: Counts::default(),
            counts: Counts::default(),
            ratio: None,
            ratios: BTreeMap::new(),
        }
    }
}

impl Row {
    /// The numbers, if the row was measured.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// The numbers, if the row was measured.
    pub fn measured_mut(&mut self) -> Option<&mut Measured> {
        match &mut self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// The times, if the row was measured.
    pub fn times(&self) -> Option<&Times> {
        Some(&self.measured()?.times)
    }

    /// The median time of one operation in nanoseconds, if the row was measured.
    pub fn median(&self) -> Option<f64> {
        Some(self.times()?.median)
    }

    /// The row's resolution in nanoseconds, if its median is below the resolution.
    pub fn bound(&self) -> Option<f64> {
        self.times()?.bound()
    }

    /// Exits per operation, if they were counted.
    pub fn exits(&self) -> Option<Exits> {
        self.measured()?.exits
    }

    /// The comparison with the reference in time, if both were measured.
    pub fn ratio(&self) -> Option<&Ratio> {
        self.measured()?.ratio.as_ref()
    }

    /// What was counted in each run: the `events` and `counts` of a measured row.
    pub fn counted(&self) -> impl Iterator<Item = (&str, &[u64])> {
        let measured = self.measured().into_iter();
        measured.flat_map(|measured| measured.events.iter().chain(measured.counts.iter()))
    }

    /// Whether the row was measured and so has numbers.
    pub fn is_ok(&self) -> bool {
        self.measured().is_some()
    }

    /// Whether the row was measured.
    pub const fn status(&self) -> Status {
        match &self.outcome {
            Outcome::Measured(_) => Status::Ok,
            Outcome::Skipped { .. } => Status::Skipped,
            Outcome::Failed { .. } => Status::Failed,
        }
    }

    /// Why the row was not measured.
    pub fn reason(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Skipped { reason } | Outcome::Failed { reason } => reason.as_deref(),
        }
    }
}

/// An address space of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AddressSpace {
    /// Guest memory.
    Mmio,
    /// I/O ports.
    Pio,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A path between guest and host.
    Scenario,
    /// The cost that the host itself has for a primitive that paths use; no guest takes part.
    Floor,
    /// An entry that behaves in one known way, for tests of the command; never listed.
    Debug,
}

impl Group {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Floor => "floor",
            Self::Debug => "debug",
        }
    }
}

/// Whether an entry was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The entry was measured.
    Ok,
    /// The entry was not measured, because the host or the backend cannot run it, or the command stopped before.
    Skipped,
    /// The entry failed while it was set up or run.
    Failed,
}

impl Status {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Percentiles, in nanoseconds; `None` if there are so few values that the percentile would be the largest value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 90 % of at least 10 values are below this.
    pub p90: Option<f64>,
    /// 99 % of at least 100 values are below this.
    pub p99: Option<f64>,
    /// 99.9 % of at least 1000 values are below this.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<f64>,
}

impl Percentiles {
    /// The percentiles of `count` values, where `at` returns the value below which a given share of them lies; `None`
    /// if it returns no median.
    pub fn of(count: f64, at: impl Fn(f64) -> Option<f64>) -> Option<Self> {
        // A percentile with no value above it is only the largest value. The added term keeps 1 - p from being rounded
        // below a hundredth.
        let beyond = |p: f64| at(p).filter(|_| count * (1.0 - p) + 1e-6 >= 1.0);
        Some(Self {
            p50: at(0.5)?,
            p90: beyond(0.9),
            p99: beyond(0.99),
            p99_9: beyond(0.999),
        })
    }
}

/// The values that percentiles are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PercentilesOf {
    /// The runs, each the mean of its operations: this hides the tail of single operations.
    Runs,
    /// The single operations of all runs.
    Operations,
}

/// A ratio, new over old: below 1 means faster than the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ratio {
    /// The name of the entry in the denominator.
    pub reference: String,
    /// The ratio of the medians.
    pub value: f64,
    /// The lower end of the 95 % confidence interval; `None` if there were too few runs for one.
    pub ci_low: Option<f64>,
    /// The upper end of the 95 % confidence interval; `None` if there were too few runs for one.
    pub ci_high: Option<f64>,
    /// Whether the entry takes less time than its resolution, so that the ratio is below `value` and nothing
    /// more is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
}

impl Ratio {
    /// The ends of the 95 % confidence interval, if there were enough runs for one.
    pub fn interval(&self) -> Option<[f64; 2]> {
        Some([self.ci_low?, self.ci_high?])
    }

    /// Whether the interval contains 1, so that no difference is shown. An interval of exactly 1, which noiseless
    /// counts can have, does show that there is no difference.
    pub(super) fn is_unclear(&self) -> bool {
        let contains_1 = |[low, high]: [f64; 2]| low <= 1.0 && high >= 1.0 && low < high;
        self.interval().is_some_and(contains_1)
    }
}
