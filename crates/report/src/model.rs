//! The report as data: the envelope of hyperfine's JSON, and what a bench of doorbells adds to it.
//!
//! `docs/report-schema.md` describes every field and the rule for changing them: a field may be added
//! under the same [`SCHEMA_VERSION`]; removing a field or changing its meaning raises the version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::written::{samples, seconds};
use super::{Counting, Counts, ExitReasons, Host, Timing, Vmm};

/// The version of the JSON that this code writes.
pub const SCHEMA_VERSION: u32 = 1;

/// What one command measured: `vmbell bench`, `stat`, `virtqueue` or `vmm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The [`SCHEMA_VERSION`] of the program that wrote the report.
    pub schema_version: u32,
    /// The program that measured.
    pub tool: Tool,
    /// The host that it measured on.
    pub host: Host,
    /// When measuring began, in RFC 3339.
    pub started: String,
    /// How long the whole command took, in seconds.
    #[serde(default)]
    pub duration: f64,
    /// Whether an interrupt from the keyboard (SIGINT) stopped the command before it was done.
    pub interrupted: bool,
    /// What one nanosecond of its times stands for.
    #[serde(flatten)]
    pub timing: Timing,
    /// Whether the command's own time limit stopped it before it was done.
    #[serde(default)]
    pub timed_out: bool,
    /// The seed of the random order of runs and of the bootstrap.
    pub seed: u64,
    /// How much was to be measured, and how many runs came of it.
    pub plan: Planned,
    /// The backend that ran the guests; the first one, if there were several.
    pub backend: Backend,
    /// All backends that ran guests.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// The spin policy that the command line chose.
    pub spin: String,
    /// The CPUs that threads were pinned to, the measured side's first.
    pub cpus: Vec<usize>,
    /// The time stamp counter, which guests measure with.
    pub tsc: Tsc,
    /// One row for each entry, measured or not.
    pub results: Vec<Row>,
    /// What the numbers mean, in sentences.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// The ratios that answer the usual questions, of those whose two entries were measured.
    #[serde(default)]
    pub highlights: Vec<Highlight>,
    /// What the ratios are taken to, in words: `device model`, `first value` (of a scan) or `reference`.
    #[serde(default = "a_reference")]
    pub ratios_to: String,
    /// The work that all rows do and the events that were counted; `None` for `vmbell bench`, whose
    /// rows differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
    /// The VMMs that `vmbell bench vmms` compared; empty in the reports of other commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vmms: Vec<Vmm>,
}

impl Report {
    /// The rows of one group, in the order of the report.
    pub fn group(&self, group: Group) -> Vec<&Row> {
        self.results
            .iter()
            .filter(|row| row.group == group)
            .collect()
    }

    /// The backend that a highlight is about, as `kvm: `; empty if only one ran guests.
    pub(super) fn backend_of(&self, highlight: &Highlight) -> String {
        if self.backends.len() > 1 {
            format!("{}: ", highlight.backend)
        } else {
            String::new()
        }
    }

    /// The name of a row, with its backend if several ran guests.
    pub fn label(&self, row: &Row) -> String {
        if self.backends.len() > 1 && row.group == Group::Scenario {
            format!("{} ({})", row.command, row.backend)
        } else {
            row.command.clone()
        }
    }
}

/// [`Report::ratios_to`] of a report that does not have the field.
fn a_reference() -> String {
    "reference".to_owned()
}

/// The program that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name, `vmbell`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The git revision that it was built from; `None` if it was not built in a repository.
    pub git: Option<String>,
}

/// How much was to be measured, and how many runs were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Measured runs that were asked for, of each entry.
    pub runs: u32,
    /// Measured runs of the entry that has the most of them.
    #[serde(default)]
    pub finished: u32,
    /// Warm-up rounds before the measured ones, which are thrown away.
    pub warmup: u32,
    /// How long one run was meant to take, in seconds; without effect where `ops` is given.
    pub min_time: f64,
    /// Operations of each run, however long they take; `None` where `min_time` decides.
    #[serde(default)]
    pub ops: Option<u64>,
}

/// The backend that ran the guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// The name of the backend: `kvm`, `usermode`, or `host` where no guest takes part.
    pub name: String,
    /// Why this backend was taken, in words.
    pub why: String,
    /// Whether the backend runs the guest's ring 0 in an instruction emulator instead of on the CPU, so that exits cost
    /// something else than on hardware.
    #[serde(default)]
    pub emulates_kernel_mode: bool,
}

/// The time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tsc {
    /// Its measured frequency in Hz.
    pub hz: f64,
    /// Whether the CPU promises (CPUID) that the frequency never changes.
    pub invariant: bool,
}

/// The result of one entry. Times are nanoseconds per operation here, and seconds in the file under
/// hyperfine's names; a time is `None`, not zero, where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The entry's name.
    pub command: String,
    /// The entry's group.
    pub group: Group,
    /// Whether the entry was measured.
    pub status: Status,
    /// Why the entry was not measured.
    pub reason: Option<String>,
    /// The mean over runs.
    #[serde(rename = "mean", default, with = "seconds")]
    pub mean_ns: Option<f64>,
    /// The standard deviation over runs.
    #[serde(rename = "stddev", default, with = "seconds")]
    pub stddev_ns: Option<f64>,
    /// The median over runs.
    #[serde(rename = "median", default, with = "seconds")]
    pub median_ns: Option<f64>,
    /// The median over runs in instructions per operation; `None` unless [`Timing::Instructions`] is
    /// the unit.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// CPU time in user mode, per operation, of all processes that took part.
    #[serde(rename = "user", default, with = "seconds")]
    pub user_ns: Option<f64>,
    /// CPU time in the kernel, per operation, of all processes that took part.
    #[serde(rename = "system", default, with = "seconds")]
    pub system_ns: Option<f64>,
    /// The time of the fastest run.
    #[serde(rename = "min", default, with = "seconds")]
    pub min_ns: Option<f64>,
    /// The time of the slowest run.
    #[serde(rename = "max", default, with = "seconds")]
    pub max_ns: Option<f64>,
    /// The time of every run in the order of rounds, rounded to a thousandth of a nanosecond.
    #[serde(flatten, with = "samples")]
    pub samples_ns: Vec<f64>,
    /// What distinguishes the entry from others, where its name does not say all of it.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The backend that ran the guest, or `host` where no guest took part.
    pub backend: String,
    /// The spin policy of the entry's heavy exits; `None` where it can have none.
    pub spin: Option<String>,
    /// The CPUs that the entry's threads were pinned to, the measured side's first.
    pub cpus: Vec<usize>,
    /// Exits per operation; `None` for a floor, and where light and heavy exits are not told apart.
    pub exits: Option<Exits>,
    /// Whether times say anything about hardware: false on an emulated CPU.
    pub timing_valid: bool,
    /// Operations of each run; of the last one, if they differ.
    pub ops_per_run: u64,
    /// Operations of every run; empty if all have [`Row::ops_per_run`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<u64>,
    /// The time of the shortest run as a whole, in seconds.
    #[serde(default)]
    pub shortest_run: Option<f64>,
    /// The percentiles, in nanoseconds.
    pub percentiles_ns: Option<Percentiles>,
    /// Whether the percentiles are over runs or over single operations.
    #[serde(default)]
    pub percentiles_of: PercentilesOf,
    /// The median absolute deviation times 1.4826, as a share of the median; `None` with fewer than three
    /// runs.
    #[serde(default)]
    pub spread: Option<f64>,
    /// How many runs are more than ten robust standard deviations away from the median.
    #[serde(default)]
    pub outliers: u64,
    /// How far these runs move the median, as a share of the median.
    #[serde(default)]
    pub outliers_shift: f64,
    /// The name of the entry that this one is compared with, whether that entry was measured or not.
    #[serde(default)]
    pub reference: Option<String>,
    /// The comparison with `reference` in time; `None` unless both were measured.
    pub ratio: Option<Ratio>,
    /// Exits per operation, where light and heavy exits are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_per_op: Option<f64>,
    /// What the host or the backend counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub events: Counts,
    /// What the entry itself counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
    /// Comparisons with `reference` in other things than time, per operation: in `exits` or in an
    /// event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratios: BTreeMap<String, Ratio>,
    /// What a reader must know to understand the row's numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What a reader must know to understand the row's exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_note: Option<String>,
    /// All exits by their reasons, those that `exits` leaves out among them; `None` where they are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_reasons: Option<ExitReasons>,
    /// The address space of a doorbell that the guest rings back to back by port I/O or MMIO; `None` for
    /// every other entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
    /// The least time of an operation that the entry's way of measuring tells from none, in nanoseconds; `None` if many
    /// operations are timed together. A median below it says only that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ns: Option<f64>,
}

/// An address space of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressSpace {
    /// Guest memory.
    Mmio,
    /// I/O ports.
    Pio,
}

impl Row {
    /// Whether the row was measured and so has numbers.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// The row's [`resolution_ns`](Self::resolution_ns), if its median is below that.
    pub fn bound_ns(&self) -> Option<f64> {
        let median = self.median_ns?;
        self.resolution_ns.filter(|resolution| median < *resolution)
    }

    /// The operations of the run with this index.
    pub fn ops_of(&self, run: usize) -> u64 {
        self.ops.get(run).copied().unwrap_or(self.ops_per_run)
    }

    /// The time of every run as a whole, in seconds.
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    pub fn seconds(&self) -> Vec<f64> {
        let seconds = |(run, ns): (usize, &f64)| ns * self.ops_of(run) as f64 / 1e9;
        self.samples_ns.iter().enumerate().map(seconds).collect()
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The entry was measured.
    Ok,
    /// The entry was not measured, because the host or the backend cannot run it, or the command
    /// stopped before.
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

/// Exits per operation of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "WrittenExits")]
pub struct Exits {
    /// Exits that were answered below the VMM; `None` if the backend cannot count them.
    pub light: Option<f64>,
    /// Exits that the VMM answered.
    pub heavy: f64,
}

/// [`Exits`] as the file has them: with the same numbers by KVM's names too.
#[derive(Serialize)]
struct WrittenExits {
    light: Option<f64>,
    heavy: f64,
    total: Option<f64>,
    userspace: f64,
}

impl From<Exits> for WrittenExits {
    fn from(Exits { light, heavy }: Exits) -> Self {
        Self {
            light,
            heavy,
            total: light.map(|light| light + heavy),
            userspace: heavy,
        }
    }
}

/// Percentiles, in nanoseconds; `None` where there are so few values that it would be the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The percentiles of `count` values, of which `at` gives the one below which a share of them is; `None` if it gives
    /// no median.
    pub fn of(count: f64, at: impl Fn(f64) -> Option<f64>) -> Option<Self> {
        // A percentile that no value is above is only the largest value. The sum keeps 1 - p from being
        // rounded below a hundredth.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PercentilesOf {
    /// The runs, each the mean of its operations: this hides the tail of single operations.
    #[default]
    Runs,
    /// The single operations of all runs.
    Operations,
}

/// A ratio, new over old: below 1 means faster than the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The name of the entry in the denominator.
    pub reference: String,
    /// The ratio of the medians.
    pub value: f64,
    /// The lower end of the 95 % confidence interval; `None` if there were too few runs for one.
    pub ci_low: Option<f64>,
    /// The upper end of the 95 % confidence interval; `None` if there were too few runs for one.
    pub ci_high: Option<f64>,
    /// Whether the entry takes less time than its [`Row::resolution_ns`], so that the ratio is below `value` and nothing
    /// more is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
}

impl Ratio {
    /// The ends of the 95 % confidence interval, if there were enough runs for one.
    pub fn interval(&self) -> Option<[f64; 2]> {
        Some([self.ci_low?, self.ci_high?])
    }
}

/// A ratio that answers one of the usual questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Highlight {
    /// The name of the entry in the numerator.
    pub new: String,
    /// The backend that both entries ran on; a floor has none of its own.
    #[serde(default)]
    pub backend: String,
    /// What the ratio compares, in words.
    pub text: String,
    /// The ratio itself.
    pub ratio: Ratio,
}
