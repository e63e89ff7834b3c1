//! The JSON of a report: schema 2, and schema 1 as far as it differs.
//!
//! The envelope is hyperfine's: times are in seconds there, under hyperfine's names. Both versions are read through the same
//! fields, so that an error names the field and the line of the file. Fields of one suite alone are absent from the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statistics::thousandths;
use super::{
    AddressSpace, Backend, Common, Counts, CpuNs, ExitReasons, Exits, Group, Highlight, Host, Kind,
    Measured, Outcome, Paths, Percentiles, PercentilesOf, Planned, Ratio, Report, Row, Setting,
    Status, Times, Timing, Tool, Tsc, Vmm, Work,
};

/// The version of the JSON that this code writes.
pub const SCHEMA_VERSION: u32 = 2;

/// What `operation` of [`Work`] is in a report of interrupts, for schema 1, which has no `suite`.
const INTERRUPT: &str = "interrupt";

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Suite {
    Paths,
    Rings,
    Eoi,
    Vmms,
    Net,
}

/// A report as the file has it.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) schema_version: u64,
    #[serde(default)]
    suite: Option<Suite>,
    tool: Tool,
    host: Host,
    started: String,
    #[serde(default)]
    duration: f64,
    interrupted: bool,
    #[serde(default)]
    timed_out: bool,
    #[serde(flatten)]
    timing: Timing,
    seed: u64,
    plan: Planned,
    #[serde(default)]
    backends: Vec<Backend>,
    cpus: Vec<usize>,
    tsc: Tsc,
    /// Of paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    highlights: Option<Vec<Highlight>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ratios_to: Option<String>,
    /// Of rings and of interrupts; `counting` in schema 1.
    #[serde(default, alias = "counting", skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    /// Of VMMs and of networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vmms: Option<Vec<Vmm>>,
    results: Vec<WrittenRow>,
    /// Of schema 1: the first backend, which is in `backends` too unless the report is of the first ones.
    #[serde(default, skip_serializing)]
    backend: Option<Backend>,
}

/// A row as the file has it. Numbers are null where nothing was measured.
#[derive(Serialize, Deserialize)]
struct WrittenRow {
    command: String,
    group: Group,
    status: Status,
    reason: Option<String>,
    #[serde(default)]
    mean: Option<f64>,
    #[serde(default)]
    stddev: Option<f64>,
    #[serde(default)]
    median: Option<f64>,
    /// The median, where the unit is instructions; derived, for people who read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
    #[serde(default)]
    user: Option<f64>,
    #[serde(default)]
    system: Option<f64>,
    #[serde(default)]
    min: Option<f64>,
    #[serde(default)]
    max: Option<f64>,
    /// The samples in seconds, and a zero for each: for readers of hyperfine's files.
    #[serde(skip_deserializing)]
    times: Vec<f64>,
    #[serde(skip_deserializing)]
    exit_codes: Vec<i32>,
    samples_ns: Vec<f64>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    backend: String,
    spin: Option<String>,
    cpus: Vec<usize>,
    exits: Option<Exits>,
    timing_valid: bool,
    #[serde(default)]
    ops: Vec<u64>,
    #[serde(default)]
    shortest_run: Option<f64>,
    percentiles_ns: Option<Percentiles>,
    #[serde(default)]
    percentiles_of: PercentilesOf,
    #[serde(default)]
    spread: Option<f64>,
    #[serde(default)]
    outliers: u64,
    #[serde(default)]
    outliers_shift: f64,
    #[serde(default)]
    reference: Option<String>,
    ratio: Option<Ratio>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ratios: BTreeMap<String, Ratio>,
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    events: Counts,
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    counts: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exits_note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_reasons: Option<ExitReasons>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    l1_exits: Option<BTreeMap<String, f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel_memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address_space: Option<AddressSpace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolution_ns: Option<f64>,
    /// Of schema 1: operations of each run if `ops` is absent, and all exits where light and heavy ones are not told apart.
    #[serde(default, skip_serializing)]
    ops_per_run: u64,
    #[serde(default, skip_serializing)]
    exits_per_op: Option<f64>,
}

impl From<&Report> for Written {
    fn from(report: &Report) -> Self {
        let common = report.common.clone();
        let mut written = Self {
            schema_version: SCHEMA_VERSION.into(),
            suite: None,
            tool: common.tool,
            host: common.host,
            started: common.started,
            duration: common.duration,
            interrupted: common.interrupted,
            timed_out: common.timed_out,
            timing: common.timing,
            seed: common.seed,
            plan: common.plan,
            backends: common.backends,
            cpus: common.cpus,
            tsc: common.tsc,
            spin: None,
            highlights: None,
            ratios_to: None,
            work: None,
            vmms: None,
            results: common.results.into_iter().map(Into::into).collect(),
            backend: None,
        };
        if report.common.timing == Timing::Instructions {
            for (written, row) in written.results.iter_mut().zip(&report.common.results) {
                written.instructions = row.median().map(thousandths);
            }
        }
        let suite = match report.kind.clone() {
            Kind::Paths(paths) => {
                written.spin = Some(paths.spin);
                written.highlights = Some(paths.highlights);
                written.ratios_to = Some(paths.ratios_to);
                Suite::Paths
            }
            Kind::Rings(work) => {
                written.work = Some(work);
                Suite::Rings
            }
            Kind::Eoi(work) => {
                written.work = Some(work);
                Suite::Eoi
            }
            Kind::Vmms(vmms) => {
                written.vmms = Some(vmms);
                Suite::Vmms
            }
            Kind::Net(vmms) => {
                written.vmms = Some(vmms);
                Suite::Net
            }
        };
        written.suite = Some(suite);
        written
    }
}

impl From<Written> for Report {
    fn from(mut written: Written) -> Self {
        if written.backends.is_empty() {
            written.backends.extend(written.backend.take());
        }
        let kind = written.take_kind();
        let common = Common {
            tool: written.tool,
            host: written.host,
            started: written.started,
            duration: written.duration,
            interrupted: written.interrupted,
            timed_out: written.timed_out,
            timing: written.timing,
            seed: written.seed,
            plan: written.plan,
            backends: written.backends,
            cpus: written.cpus,
            tsc: written.tsc,
            results: written.results.into_iter().map(Into::into).collect(),
        };
        Self { common, kind }
    }
}

impl Written {
    /// The suite, which schema 1 says by the fields that are there.
    fn take_kind(&mut self) -> Kind {
        let vmms = self.vmms.take().unwrap_or_default();
        match (self.suite, self.work.take()) {
            (Some(Suite::Vmms), _) => Kind::Vmms(vmms),
            (Some(Suite::Net), _) => Kind::Net(vmms),
            (Some(Suite::Rings), work) => Kind::Rings(work.unwrap_or_default()),
            (Some(Suite::Eoi), work) => Kind::Eoi(work.unwrap_or_default()),
            (None, Some(work)) if work.operation == INTERRUPT => Kind::Eoi(work),
            (None, Some(work)) => Kind::Rings(work),
            // Rows of networks have operations of different numbers.
            (None, None) if !vmms.is_empty() && self.plan.ops.is_none() => Kind::Net(vmms),
            (None, None) if !vmms.is_empty() => Kind::Vmms(vmms),
            _ => Kind::Paths(Paths {
                spin: self.spin.take().unwrap_or_default(),
                highlights: self.highlights.take().unwrap_or_default(),
                ratios_to: self
                    .ratios_to
                    .take()
                    .unwrap_or_else(|| "reference".to_owned()),
            }),
        }
    }
}

impl From<Row> for WrittenRow {
    fn from(row: Row) -> Self {
        let (status, reason) = (row.status(), row.reason().map(str::to_owned));
        let mut written = Self {
            command: row.command,
            group: row.group,
            status,
            reason,
            mean: None,
            stddev: None,
            median: None,
            instructions: None,
            user: None,
            system: None,
            min: None,
            max: None,
            times: Vec::new(),
            exit_codes: Vec::new(),
            samples_ns: Vec::new(),
            parameters: row.parameters,
            backend: row.backend,
            spin: row.setting.spin,
            cpus: row.setting.cpus,
            exits: None,
            timing_valid: row.timing_valid,
            ops: Vec::new(),
            shortest_run: None,
            percentiles_ns: None,
            percentiles_of: PercentilesOf::Runs,
            spread: None,
            outliers: 0,
            outliers_shift: 0.0,
            reference: row.reference,
            ratio: None,
            ratios: BTreeMap::new(),
            events: Counts::default(),
            counts: Counts::default(),
            note: row.note,
            exits_note: None,
            exit_reasons: None,
            l1_exits: None,
            memory_bytes: None,
            kernel_memory_bytes: None,
            address_space: row.setting.address_space,
            resolution_ns: None,
            ops_per_run: 0,
            exits_per_op: None,
        };
        if let Outcome::Measured(measured) = row.outcome {
            written.add(*measured);
        }
        written
    }
}

impl WrittenRow {
    fn add(&mut self, measured: Measured) {
        let seconds = |ns: f64| ns / 1e9;
        let times = measured.times;
        self.mean = Some(seconds(times.mean));
        self.stddev = times.stddev.map(seconds);
        self.median = Some(seconds(times.median));
        self.user = measured.cpu.map(|cpu| seconds(cpu.user));
        self.system = measured.cpu.map(|cpu| seconds(cpu.system));
        self.min = Some(seconds(times.min));
        self.max = Some(seconds(times.max));
        self.times = times.samples.iter().copied().map(seconds).collect();
        self.exit_codes = vec![0; times.samples.len()];
        self.samples_ns = times.samples;
        self.ops = times.ops;
        self.shortest_run = times.shortest_run;
        self.percentiles_ns = times.percentiles;
        self.percentiles_of = times.percentiles_of;
        self.spread = times.spread;
        self.outliers = times.outliers;
        self.outliers_shift = times.outliers_shift;
        self.resolution_ns = times.resolution;
        self.exits = measured.exits;
        self.exits_note = measured.exits_note;
        self.exit_reasons = measured.exit_reasons;
        self.l1_exits = measured.l1_exits;
        self.memory_bytes = measured.memory;
        self.kernel_memory_bytes = measured.kernel_memory;
        self.ratio = measured.ratio;
        self.ratios = measured.ratios;
        self.events = measured.events;
        self.counts = measured.counts;
    }

    /// The numbers; `None` without a sample.
    fn measured(&mut self) -> Option<Measured> {
        let runs = self.samples_ns.len();
        let ops = match self.ops.len() == runs {
            true => std::mem::take(&mut self.ops),
            false => vec![self.ops_per_run; runs],
        };
        let computed = Times::of(&self.samples_ns, ops)?;
        let ns = |seconds: Option<f64>| seconds.map(nanoseconds);
        let times = Times {
            mean: ns(self.mean).unwrap_or(computed.mean),
            stddev: ns(self.stddev),
            median: ns(self.median).unwrap_or(computed.median),
            min: ns(self.min).unwrap_or(computed.min),
            max: ns(self.max).unwrap_or(computed.max),
            percentiles: self.percentiles_ns,
            percentiles_of: self.percentiles_of,
            spread: self.spread,
            outliers: self.outliers,
            outliers_shift: self.outliers_shift,
            shortest_run: self.shortest_run,
            resolution: self.resolution_ns,
            ..computed
        };
        let all = |total| Exits {
            total: Some(total),
            userspace: None,
        };
        let cpu = ns(self.user).zip(ns(self.system));
        Some(Measured {
            times,
            cpu: cpu.map(|(user, system)| CpuNs { user, system }),
            exits: self.exits.or(self.exits_per_op.map(all)),
            exit_reasons: self.exit_reasons.take(),
            l1_exits: self.l1_exits.take(),
            memory: self.memory_bytes,
            kernel_memory: self.kernel_memory_bytes,
            exits_note: self.exits_note.take(),
            events: std::mem::take(&mut self.events),
            counts: std::mem::take(&mut self.counts),
            ratio: self.ratio.take(),
            ratios: std::mem::take(&mut self.ratios),
        })
    }
}

impl From<WrittenRow> for Row {
    fn from(mut written: WrittenRow) -> Self {
        let reason = written.reason.take();
        let outcome = match written.status {
            Status::Failed => Outcome::Failed(reason),
            Status::Skipped => Outcome::Skipped(reason),
            Status::Ok => match written.measured() {
                Some(measured) => Outcome::Measured(Box::new(measured)),
                None => Outcome::Skipped(Some("its report has no sample of it".to_owned())),
            },
        };
        Self {
            command: written.command,
            group: written.group,
            backend: written.backend,
            parameters: written.parameters,
            setting: Setting {
                spin: written.spin,
                cpus: written.cpus,
                address_space: written.address_space,
            },
            timing_valid: written.timing_valid,
            reference: written.reference,
            note: written.note,
            outcome,
        }
    }
}

/// From seconds, rounded to a millionth of a nanosecond: further digits are an error of the division.
fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e15).round() / 1e6
}

#[cfg(test)]
#[path = "wire_test.rs"]
mod tests;
