//! The report as data: the envelope of hyperfine's JSON and what a doorbell bench adds to it.
//!
//! `docs/report-schema.md` describes every field and the rule for changing them: fields may be
//! added under the same [`SCHEMA_VERSION`]; a field that goes or changes its meaning raises it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::written::{samples, seconds};
use super::{Counting, Counts, Host, Timing};

/// The version of the JSON that this code writes.
pub const SCHEMA_VERSION: u32 = 1;

/// What one command measured: `vmbell bench`, `stat` or `virtqueue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of whoever wrote it.
    pub schema_version: u32,
    /// Who measured.
    pub tool: Tool,
    /// Where.
    pub host: Host,
    /// When, in RFC 3339.
    pub started: String,
    /// How long the whole command took, in seconds.
    #[serde(default)]
    pub duration: f64,
    /// Somebody stopped it before it was done.
    pub interrupted: bool,
    /// What its times are.
    #[serde(flatten)]
    pub timing: Timing,
    /// Its own time limit stopped it before it was done.
    #[serde(default)]
    pub timed_out: bool,
    /// What the order of runs and the confidence intervals were drawn from.
    pub seed: u64,
    /// How much was to be measured.
    pub plan: Plan,
    /// What ran the guests.
    pub backend: Backend,
    /// The spin policy of the command line.
    pub spin: String,
    /// The CPUs that subjects were pinned to.
    pub cpus: Vec<usize>,
    /// The clock that guests measure with.
    pub tsc: Tsc,
    /// One for each entry, whatever became of it.
    pub results: Vec<Row>,
    /// The ratios that people ask for first, as far as their entries were measured.
    #[serde(default)]
    pub highlights: Vec<Highlight>,
    /// What ratios are taken to, in words.
    #[serde(default = "a_reference")]
    pub ratios_to: String,
    /// What all rows do, and what was counted of it; none for `vmbell bench`, whose rows say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
}

impl Report {
    /// The rows of one group.
    pub fn group(&self, group: Group) -> Vec<&Row> {
        self.results
            .iter()
            .filter(|row| row.group == group)
            .collect()
    }
}

/// What ratios are taken to in reports that do not say it.
fn a_reference() -> String {
    "reference".to_owned()
}

/// The program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `vmbell`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision that it was built from, if it was built from a repository.
    pub git: Option<String>,
}

/// How much was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Measured runs of each entry that were asked for.
    pub runs: u32,
    /// Measured runs that the entry with the most came to.
    #[serde(default)]
    pub finished: u32,
    /// Rounds before them that were thrown away.
    pub warmup: u32,
    /// How long one run was meant to take, in seconds; 0 where `ops` was given.
    pub min_time: f64,
    /// Operations that each run was to have, whatever time they took.
    #[serde(default)]
    pub ops: Option<u64>,
}

/// What ran the guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Why this one.
    pub why: String,
}

/// The time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tsc {
    /// Ticks in a second, as measured.
    pub hz: f64,
    /// Whether the CPU promises that this never changes.
    pub invariant: bool,
}

/// What one entry came to. Times are nanoseconds per operation, and seconds only in the file; they
/// are absent, not zero, where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The entry's name.
    pub command: String,
    /// What it is for.
    pub group: Group,
    /// What became of it.
    pub status: Status,
    /// Why it was not measured.
    pub reason: Option<String>,
    /// Mean over runs.
    #[serde(rename = "mean", default, with = "seconds")]
    pub mean_ns: Option<f64>,
    /// Standard deviation over runs.
    #[serde(rename = "stddev", default, with = "seconds")]
    pub stddev_ns: Option<f64>,
    /// Median over runs.
    #[serde(rename = "median", default, with = "seconds")]
    pub median_ns: Option<f64>,
    /// Median over runs in instructions, where that is the unit.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// CPU time in user mode, of all processes that took part.
    #[serde(rename = "user", default, with = "seconds")]
    pub user_ns: Option<f64>,
    /// CPU time in the kernel, likewise.
    #[serde(rename = "system", default, with = "seconds")]
    pub system_ns: Option<f64>,
    /// The fastest run.
    #[serde(rename = "min", default, with = "seconds")]
    pub min_ns: Option<f64>,
    /// The slowest run.
    #[serde(rename = "max", default, with = "seconds")]
    pub max_ns: Option<f64>,
    /// Every run, to a thousandth.
    #[serde(flatten, with = "samples")]
    pub samples_ns: Vec<f64>,
    /// What makes it differ from other rows, where the name does not say all of it.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// What ran the guest, or `host` where there was none.
    pub backend: String,
    /// How the two sides of a heavy exit waited for each other, if there could be any.
    pub spin: Option<String>,
    /// The CPUs that it was pinned to, the measured side first.
    pub cpus: Vec<usize>,
    /// Exits per operation; absent for a floor.
    pub exits: Option<Exits>,
    /// Whether times mean anything: not on an emulated CPU.
    pub timing_valid: bool,
    /// Operations of each run.
    pub ops_per_run: u64,
    /// The tail.
    pub percentiles_ns: Option<Percentiles>,
    /// What the percentiles are over.
    #[serde(default)]
    pub percentiles_of: PercentilesOf,
    /// Median absolute deviation times 1.4826, as a share of the median.
    #[serde(default)]
    pub spread: Option<f64>,
    /// How many runs are ten robust standard deviations off.
    #[serde(default)]
    pub outliers: u64,
    /// How far they move the median, as a share of it.
    #[serde(default)]
    pub outliers_shift: f64,
    /// The name of the entry that it is to be compared with, whether that was measured or not.
    #[serde(default)]
    pub reference: Option<String>,
    /// The comparison.
    pub ratio: Option<Ratio>,
    /// Exits per operation, where nobody tells light ones from heavy ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_per_op: Option<f64>,
    /// What the host or the backend counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub events: Counts,
    /// What the entry itself counted in each run.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
    /// Comparisons of other things than time, per operation: of `exits`, or of an event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratios: BTreeMap<String, Ratio>,
    /// What must be known to read its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where it rings, if that is at an address of a bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
}

/// An address space of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressSpace {
    /// Memory.
    Mmio,
    /// Ports.
    Pio,
}

impl Row {
    /// Whether there are numbers.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// How long each run took, in seconds.
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    pub fn seconds(&self) -> Vec<f64> {
        let ops = self.ops_per_run as f64;
        self.samples_ns.iter().map(|ns| ns * ops / 1e9).collect()
    }
}

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A path between guest and host.
    Scenario,
    /// What the host itself charges for the primitive below a path.
    Floor,
    /// Behaves in one known way, for tests of the command; never listed.
    Debug,
}

impl Group {
    /// As it stands in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Floor => "floor",
            Self::Debug => "debug",
        }
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured.
    Ok,
    /// Not measured, for a reason that is nobody's fault.
    Skipped,
    /// It went wrong.
    Failed,
}

impl Status {
    /// As it stands in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Exits per operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "WrittenExits")]
pub struct Exits {
    /// Answered below the VMM.
    pub light: f64,
    /// Answered by the VMM.
    pub heavy: f64,
}

/// As they are written: with the same counts by the names of KVM's own.
#[derive(Serialize)]
struct WrittenExits {
    light: f64,
    heavy: f64,
    total: f64,
    userspace: f64,
}

impl From<Exits> for WrittenExits {
    fn from(Exits { light, heavy }: Exits) -> Self {
        Self {
            light,
            heavy,
            total: light + heavy,
            userspace: heavy,
        }
    }
}

/// Nanoseconds below which so many per cent lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
}

/// What percentiles are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PercentilesOf {
    /// Runs, each the mean of its operations: the tail of single operations is hidden.
    #[default]
    Runs,
    /// Single operations.
    Operations,
}

/// New over old: below 1 is faster than the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The entry below the line.
    pub reference: String,
    /// The ratio of the medians.
    pub value: f64,
    /// The lower end of its 95 % confidence interval.
    pub ci_low: f64,
    /// The upper end.
    pub ci_high: f64,
}

/// One of the ratios that people ask for first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Highlight {
    /// The entry above the line.
    pub new: String,
    /// What is compared, in words.
    pub text: String,
    /// The answer.
    pub ratio: Ratio,
}
