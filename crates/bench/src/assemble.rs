//! Makes a report of a record: this module computes the medians, spreads, ratios and intervals of every
//! row from its samples.

use std::time::{Duration, SystemTime};

use super::ratios::{count, exits_per_op, highlights, ratio_in_time, ratios, resolution_ns};
use super::{EarlyStop, Options, Record, Sample, Series, compare, verdict};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::outliers::Outliers;
use vmbell_report::statistics::{Summary, median, percentile, thousandths};
use vmbell_report::{
    Backend, Counting, Counts, Exits, Group, Host, Percentiles, PercentilesOf, Planned, Report,
    Row, SCHEMA_VERSION, Timing, Tool, Tsc, rfc3339,
};

/// The facts that a report states besides the samples.
#[derive(Debug)]
pub struct Context<'a> {
    /// The program that measures.
    pub tool: Tool,
    /// The options that the subjects were made with.
    pub options: &'a Options,
    /// How much was to be measured.
    pub plan: &'a crate::Plan,
    /// The host that was measured.
    pub host: Host,
    /// The backends that ran the guests, the first one first.
    pub backends: Vec<Backend>,
    /// When measuring began.
    pub started: SystemTime,
    /// How long measuring took.
    pub duration: Duration,
    /// The work that all rows do and the events that were counted; `None` if every row does different
    /// work.
    pub counting: Option<Counting>,
    /// The names of the events that rows are compared by, besides time.
    pub compared: &'a [&'a str],
}

/// Makes the report of `record`.
pub fn assemble(record: &Record, context: Context<'_>) -> Report {
    let timing = context.options.timing;
    let seed = context.plan.seed;
    let highlights = highlights(&record.series, &context.backends, seed, context.options);
    let verdict = verdict::verdict(&record.series, &context.backends, context.options);
    Report {
        schema_version: SCHEMA_VERSION,
        tool: context.tool,
        host: context.host,
        started: rfc3339(context.started),
        duration: context.duration.as_secs_f64(),
        interrupted: record.stopped == Some(EarlyStop::Interrupted),
        timing,
        timed_out: record.stopped == Some(EarlyStop::TimedOut),
        seed,
        plan: Planned {
            runs: context.plan.runs,
            finished: finished(&record.series),
            warmup: context.plan.warmup,
            min_time: context.plan.min_time.as_secs_f64(),
            ops: context.plan.ops,
        },
        backend: context.backends.first().cloned().unwrap_or_default(),
        backends: context.backends,
        spin: spin_name(context.options.spin).to_owned(),
        cpus: context.options.cpus.clone(),
        tsc: Tsc {
            hz: context.options.clock.hz(),
            invariant: context.options.clock.is_invariant(),
        },
        results: record
            .series
            .iter()
            .map(|series| {
                row(
                    series,
                    &record.series,
                    seed,
                    context.options,
                    context.compared,
                )
            })
            .collect(),
        highlights,
        verdict,
        ratios_to: compare::references(&record.series).to_owned(),
        counting: context.counting,
        vmms: Vec::new(),
    }
}

fn finished(all: &[Series]) -> u32 {
    let most = all.iter().map(|series| series.samples.len()).max();
    u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// With fewer runs than this, a row has no spread.
const MIN_SCATTER: usize = 3;

/// The name of a spin policy, as users type it.
const fn spin_name(spin: SpinPolicy) -> &'static str {
    match spin {
        SpinPolicy::Sleep => "sleep",
        SpinPolicy::Spin => "spin",
        SpinPolicy::Adaptive => "adaptive",
    }
}

fn row(series: &Series, all: &[Series], seed: u64, options: &Options, compared: &[&str]) -> Row {
    let timing = options.timing;
    let samples = series.ns_per_op();
    let summary = Summary::of(&samples);
    let stat = |pick: fn(&Summary) -> f64| summary.as_ref().map(pick);
    let outliers = Outliers::of(&samples);
    let cpu_ns = |seconds: f64| ops(series).map(|ops| seconds * 1e9 / ops);
    Row {
        command: series.name.clone(),
        group: series.group,
        status: series.status,
        reason: series.reason.clone(),
        mean_ns: stat(|s| s.mean),
        stddev_ns: summary.and_then(|s| s.stddev),
        median_ns: stat(|s| s.median),
        instructions: summary
            .map(|summary| thousandths(summary.median))
            .filter(|_| timing == Timing::Instructions),
        user_ns: cpu_ns(series.cpu_time().user),
        system_ns: cpu_ns(series.cpu_time().system),
        min_ns: stat(|s| s.min),
        max_ns: stat(|s| s.max),
        parameters: series.remarks.parameters.clone(),
        backend: series.backend.to_owned(),
        spin: series.setting.spin.map(|spin| spin_name(spin).to_owned()),
        cpus: series.setting.cpus.clone(),
        exits: exits(series),
        timing_valid: timing == Timing::Native,
        ops_per_run: series.ops_per_run(),
        ops: varying_ops(series),
        shortest_run: series.shortest_run_ns().map(|ns| ns / 1e9),
        percentiles_ns: percentiles(series, &samples),
        percentiles_of: match series.latencies {
            Some(_) => PercentilesOf::Operations,
            None => PercentilesOf::Runs,
        },
        samples_ns: samples.iter().copied().map(thousandths).collect(),
        spread: summary
            .as_ref()
            .filter(|_| samples.len() >= MIN_SCATTER)
            .map(Summary::relative_spread),
        outliers: outliers.count as u64,
        outliers_shift: outliers.median_shift,
        reference: series.reference.clone(),
        ratio: series
            .reference
            .as_deref()
            .and_then(|reference| ratio_in_time(all, series, reference, seed, options)),
        exits_per_op: exits_per_op(series).and_then(|runs| median(&runs)),
        events: counts(series, |sample| &sample.events),
        counts: counts(series, |sample| &sample.counts),
        ratios: ratios(series, all, seed, compared),
        note: series.remarks.note.map(str::to_owned),
        exit_reasons: None,
        exits_note: series.setting.exits_note.clone(),
        address_space: series.remarks.address_space,
        resolution_ns: resolution_ns(series, options),
    }
}

/// For each name, the count in every run.
fn counts(series: &Series, pick: fn(&Sample) -> &[(String, u64)]) -> Counts {
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

/// The operations of every run, if they differ.
fn varying_ops(series: &Series) -> Vec<u64> {
    let all: Vec<u64> = series.samples.iter().map(|sample| sample.ops).collect();
    let differ = all.iter().any(|ops| Some(ops) != all.first());
    if differ { all } else { Vec::new() }
}

/// The operations of all runs together; `None` if there were none.
#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn ops(series: &Series) -> Option<f64> {
    let ops: u64 = series.samples.iter().map(|sample| sample.ops).sum();
    (ops > 0).then_some(ops as f64)
}

#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn exits(series: &Series) -> Option<Exits> {
    let told_apart = series.samples.iter().all(|sample| sample.exits.is_none());
    if series.group == Group::Floor || !told_apart {
        return None;
    }
    let ops = ops(series)?;
    let samples = || series.samples.iter();
    let light: Option<u64> = samples().map(|sample| sample.light).sum();
    let heavy: u64 = samples().map(|sample| sample.heavy).sum();
    Some(Exits {
        light: light.map(|light| light as f64 / ops),
        heavy: heavy as f64 / ops,
    })
}

#[allow(
    clippy::cast_precision_loss,
    reason = "latencies are far below 2^53 ns"
)]
fn percentiles(series: &Series, samples: &[f64]) -> Option<Percentiles> {
    let count = match &series.latencies {
        Some(histogram) => histogram.len() as f64,
        None => samples.len() as f64,
    };
    let at = |p: f64| match &series.latencies {
        Some(histogram) => Some(histogram.value_at_quantile(p) as f64),
        None => percentile(samples, p),
    };
    Percentiles::of(count, at)
}

#[cfg(test)]
#[path = "assemble_test.rs"]
mod tests;
