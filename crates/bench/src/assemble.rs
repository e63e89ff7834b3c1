//! Turns a record into a report: rows with their times, exits, counts and ratios.

use std::time::{Duration, SystemTime};

use super::ratios::{count, highlights, ratio_in_time, ratios, resolution_ns};
use super::{EarlyStop, Record, RunSample, SampleSeries, SubjectOptions, compare};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::{
    Backend, Counts, Exits, Group, Host, Kind, Measured, Outcome, Paths, Percentiles,
    PercentilesOf, Planned, Report, Row, Setting, Status, Times, Timing, Tool, Tsc, rfc3339,
};
use vmbell_statistics::median;

/// The facts that a report states in addition to the samples.
#[derive(Debug)]
pub struct ReportFacts<'a> {
    /// The program that measures.
    pub tool: Tool,
    /// The options that the subjects were made with.
    pub options: &'a SubjectOptions,
    /// How much was planned to be measured.
    pub plan: &'a crate::BenchPlan,
    /// The host that was measured.
    pub host: Host,
    /// The backends that ran the guests.
    pub backends: Vec<Backend>,
    /// When measuring began.
    pub started: SystemTime,
    /// How long measuring took.
    pub duration: Duration,
    /// The names of the events that rows are compared by, in addition to time.
    pub compared: &'a [&'a str],
}

/// Makes the report of `record`; `kind` is what its suite adds.
pub fn assemble(record: &Record, context: ReportFacts<'_>, kind: Kind) -> Report {
    let ReportFacts { options, plan, .. } = context;
    let all = &record.series;
    let row = |series| row(series, all, plan.seed, options, context.compared);
    Report {
        kind,
        tool: context.tool,
        host: context.host,
        started: rfc3339(context.started),
        duration: context.duration.as_secs_f64(),
        interrupted: record.stopped == Some(EarlyStop::Interrupted),
        timed_out: record.stopped == Some(EarlyStop::TimedOut),
        timing: options.timing,
        seed: plan.seed,
        plan: Planned {
            runs: plan.runs,
            finished: finished(all),
            warmup: plan.warmup,
            min_time: plan.min_time.as_secs_f64(),
            ops: plan.ops,
        },
        backends: context.backends,
        cpus: options.cpus.clone(),
        tsc: Tsc {
            hz: options.clock.hz(),
            invariant: options.clock.is_invariant(),
        },
        results: all.iter().map(row).collect(),
    }
}

/// What a report of paths has in addition to its rows.
pub fn paths(
    record: &Record,
    backends: &[Backend],
    plan: &crate::BenchPlan,
    options: &SubjectOptions,
) -> Kind {
    let all = &record.series;
    Kind::Paths(Paths {
        spin: spin_name(options.spin).to_owned(),
        highlights: highlights(all, backends, plan.seed, options),
        ratios_to: compare::references(all).to_owned(),
    })
}

fn finished(all: &[SampleSeries]) -> u32 {
    let most = all.iter().map(|series| series.samples.len()).max();
    u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// The name of a spin policy, as users type it.
const fn spin_name(spin: SpinPolicy) -> &'static str {
    match spin {
        SpinPolicy::OneCpu => "one-cpu",
        SpinPolicy::Sleep => "sleep",
        SpinPolicy::Spin => "spin",
        SpinPolicy::Adaptive => "adaptive",
    }
}

fn row(
    series: &SampleSeries,
    all: &[SampleSeries],
    seed: u64,
    options: &SubjectOptions,
    compared: &[&str],
) -> Row {
    let reason = series.reason.clone();
    let measured = (series.status == Status::Ok)
        .then(|| measured(series, all, seed, options, compared))
        .flatten();
    Row {
        command: series.name.clone(),
        description: series.description.clone(),
        group: series.group,
        backend: series.backend.to_owned(),
        parameters: series.remarks.parameters.clone(),
        setting: Setting {
            spin: series.setting.spin.map(|spin| spin_name(spin).to_owned()),
            cpus: series.setting.cpus.clone(),
            address_space: series.remarks.address_space,
        },
        timing_valid: options.timing == Timing::Native,
        reference: series.reference.clone(),
        note: series.remarks.note.map(str::to_owned),
        outcome: match (measured, series.status) {
            (Some(measured), _) => Outcome::Measured(Box::new(measured)),
            (None, Status::Failed) => Outcome::Failed { reason },
            (None, Status::Ok | Status::Skipped) => Outcome::Skipped { reason },
        },
    }
}

fn measured(
    series: &SampleSeries,
    all: &[SampleSeries],
    seed: u64,
    options: &SubjectOptions,
    compared: &[&str],
) -> Option<Measured> {
    let ops = series.samples.iter().map(|sample| sample.ops).collect();
    let mut times = Times::of(&series.ns_per_op(), ops)?;
    // A run that times single operations takes longer than the sum of their times.
    times.shortest_run = series.shortest_run_ns().map(|ns| ns / 1e9);
    times.resolution = resolution_ns(series, options);
    if let Some(percentiles) = of_operations(series) {
        times.percentiles = Some(percentiles);
        times.percentiles_of = PercentilesOf::Operations;
    }
    let cpu_ns = |seconds: f64| operations(series).map(|ops| seconds * 1e9 / ops);
    let (user, system) = (series.cpu_time().user, series.cpu_time().system);
    let ratio = |reference: &str| ratio_in_time(all, series, reference, seed, options);
    Some(Measured {
        user: cpu_ns(user),
        system: cpu_ns(system),
        exits: exits(series),
        exits_note: series.setting.exits_note.clone(),
        memory: bytes(series, |sample| sample.memory),
        kernel_memory: bytes(series, |sample| sample.kernel_memory),
        events: counts(series, |sample| &sample.events),
        counts: counts(series, |sample| &sample.counts),
        ratio: series.reference.as_deref().and_then(ratio),
        ratios: ratios(series, all, seed, compared),
        ..Measured::of(times)
    })
}

/// For each name, the count in every run.
fn counts(series: &SampleSeries, pick: fn(&RunSample) -> &[(String, u64)]) -> Counts {
    let names = series.samples.first().into_iter().flat_map(pick);
    let runs = |name: &String| {
        series
            .samples
            .iter()
            .filter_map(|s| count(pick(s), name))
            .collect()
    };
    names.map(|(name, _)| (name.clone(), runs(name))).collect()
}

/// The number of operations of all runs together; `None` if there were no runs.
#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn operations(series: &SampleSeries) -> Option<f64> {
    let ops: u64 = series.samples.iter().map(|sample| sample.ops).sum();
    (ops > 0).then_some(ops as f64)
}

fn exits(series: &SampleSeries) -> Option<Exits> {
    let runs: Vec<_> = series.samples.iter().map(RunSample::exits_of_run).collect();
    (series.group != Group::Floor).then(|| Exits::of(&runs))?
}

/// The median over runs, rounded to a byte; `None` unless every run has the number.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of programs are not negative, and far below 2^53"
)]
fn bytes(series: &SampleSeries, pick: fn(&RunSample) -> Option<u64>) -> Option<u64> {
    let runs: Option<Vec<f64>> = series
        .samples
        .iter()
        .map(|sample| Some(pick(sample)? as f64))
        .collect();
    Some(median(&runs?)?.round() as u64)
}

/// The percentiles of single operations, if the subject times each operation.
#[allow(
    clippy::cast_precision_loss,
    reason = "latencies are far below 2^53 ns"
)]
fn of_operations(series: &SampleSeries) -> Option<Percentiles> {
    let histogram = series.latencies.as_ref()?;
    let at = |share| Some(histogram.value_at_quantile(share) as f64);
    Percentiles::of(histogram.len() as f64, at)
}

#[cfg(test)]
#[path = "assemble_test.rs"]
mod tests;
