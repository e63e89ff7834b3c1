//! The ratios of a report: of each row to the row that it is compared with, and the ratios that answer the usual
//! questions.

use std::collections::BTreeMap;

use super::{RunSample, SampleSeries, SubjectOptions, compare};
use vmbell_report::{Backend, Group, Highlight, Ratio, Timing};
use vmbell_statistics::bootstrap::RatioOfMedians;
use vmbell_statistics::median;

/// The maximum number of highlights of each backend in a report.
const HIGHLIGHTS: usize = 5;

/// The answers to the questions, backend by backend. Where time is emulated, floors say nothing about a guest.
pub(super) fn highlights(
    all: &[SampleSeries],
    backends: &[Backend],
    seed: u64,
    options: &SubjectOptions,
) -> Vec<Highlight> {
    let answer = |backend: &str, question: &compare::Question| {
        let new = compare::measured(all, question.new, backend)?;
        let old = compare::measured(all, question.old, backend)?;
        if old.group == Group::Floor && options.timing != Timing::Native {
            return None;
        }
        Some(Highlight {
            new: question.new.to_owned(),
            backend: backend.to_owned(),
            text: question.text.to_owned(),
            ratio: ratio_in_time(all, new, question.old, seed, options)?,
        })
    };
    let of = |backend: &Backend| {
        let answers = compare::QUESTIONS.iter();
        answers
            .filter_map(|question| answer(&backend.name, question))
            .take(HIGHLIGHTS)
            .collect::<Vec<_>>()
    };
    backends.iter().flat_map(of).collect()
}

/// The ratio of the times of `new` and `old`. It is a bound if `new` takes less than its resolution, and `None` if
/// `old` takes less than its own.
pub(super) fn ratio_in_time(
    all: &[SampleSeries],
    new: &SampleSeries,
    old: &str,
    seed: u64,
    options: &SubjectOptions,
) -> Option<Ratio> {
    let measured = compare::ratio(all, new, old, seed)?;
    let reference = compare::measured(all, old, new.backend)?;
    let median_of = |series: &SampleSeries| median(&series.ns_per_op());
    let bound = |series: &SampleSeries| {
        let resolution = resolution_ns(series, options)?;
        (median_of(series)? < resolution).then_some(resolution)
    };
    if bound(reference).is_some() {
        return None;
    }
    let Some(bound) = bound(new) else {
        return Some(ratio(old, measured));
    };
    Some(Ratio {
        reference: old.to_owned(),
        value: bound / median_of(reference)?,
        ci_low: None,
        ci_high: None,
        is_bound: true,
    })
}

fn ratio(reference: &str, ratio: RatioOfMedians) -> Ratio {
    Ratio {
        reference: reference.to_owned(),
        value: ratio.value,
        ci_low: ratio.interval.map(|[low, _]| low),
        ci_high: ratio.interval.map(|[_, high]| high),
        is_bound: false,
    }
}

/// The ratios in exits, if light and heavy exits are not distinguished, and in the events `compared`.
pub(super) fn ratios(
    series: &SampleSeries,
    all: &[SampleSeries],
    seed: u64,
    compared: &[&str],
) -> BTreeMap<String, Ratio> {
    let Some(reference) = series.reference.as_deref() else {
        return BTreeMap::new();
    };
    let of = |pick: &dyn Fn(&SampleSeries) -> Option<Vec<f64>>| {
        compare::ratio_of(all, series, reference, seed, pick)
            .map(|measured| ratio(reference, measured))
    };
    let events = compared.iter().filter_map(|event| {
        let ratio = of(&|series| per_op(series, |sample| count(&sample.events, event)))?;
        Some(((*event).to_owned(), ratio))
    });
    let exits = of(&exits_per_op).map(|ratio| ("exits".to_owned(), ratio));
    events.chain(exits).collect()
}

pub(super) fn count(counts: &[(String, u64)], name: &str) -> Option<u64> {
    let (_, count) = counts.iter().find(|(other, _)| other == name)?;
    Some(*count)
}

pub(super) fn exits_per_op(series: &SampleSeries) -> Option<Vec<f64>> {
    per_op(series, |sample| sample.exits)
}

/// For each run, a count divided by the run's operations; `None` if a run has no such count.
#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
pub(super) fn per_op(
    series: &SampleSeries,
    pick: impl Fn(&RunSample) -> Option<u64>,
) -> Option<Vec<f64>> {
    let each = |sample: &RunSample| Some(pick(sample)? as f64 / sample.ops.max(1) as f64);
    series.samples.iter().map(each).collect()
}

/// The shortest time that `series` can distinguish from 0; `None` if the clock is no limit.
pub(super) fn resolution_ns(series: &SampleSeries, options: &SubjectOptions) -> Option<f64> {
    let counts_time = options.timing != Timing::Instructions;
    let ticks = series.remarks.resolution.filter(|_| counts_time)?;
    Some(options.clock.ns(ticks.into()))
}
