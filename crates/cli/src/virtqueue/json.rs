//! The results as JSON: seconds as floats, every run, the same ratios as in the text.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::measure::{Results, Run, Session};
use super::ratio::{counts, ratios, seconds};
use super::text::error_of_mean;
use vmbell_bench::perf::{Event, Scope};
use vmbell_bench::workload::Tally;
use vmbell_report::statistics::Summary;

/// Grows when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    seed: u64,
    interrupted: bool,
    buffers: u64,
    ring_size: u16,
    driver_cpu: usize,
    device_cpu: Option<usize>,
    events: Vec<Counted<'a>>,
    variants: Vec<Variant<'a>>,
    ratios: Vec<Ratio<'a>>,
}

/// Whether an event is counted, and if not, why.
#[derive(Serialize)]
struct Counted<'a> {
    event: Event,
    scope: Option<Scope>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Variant<'a> {
    name: &'a str,
    switches: &'a str,
    time: Option<Measure>,
    ns_per_buffer: Option<f64>,
    kicks: Option<Measure>,
    calls: Option<Measure>,
    spurious: Option<Measure>,
    resets: Option<Measure>,
    task_clock_ns: Option<Measure>,
    context_switches: Option<Measure>,
    cycles: Option<Measure>,
    instructions: Option<Measure>,
}

#[derive(Serialize)]
struct Measure {
    mean: f64,
    median: f64,
    /// Standard error of the mean, as a share of it.
    error: Option<f64>,
    runs: Vec<f64>,
}

impl Measure {
    fn of(runs: Vec<f64>) -> Option<Self> {
        let summary = Summary::of(&runs)?;
        Some(Self {
            mean: summary.mean,
            median: summary.median,
            error: error_of_mean(&runs),
            runs,
        })
    }
}

#[derive(Serialize)]
struct Ratio<'a> {
    new: &'a str,
    old: &'a str,
    of: &'a str,
    value: f64,
    low: f64,
    high: f64,
}

/// The document, with a newline at its end.
pub(super) fn text(session: &Session, results: &Results) -> Result<String> {
    let options = session.variants.first().context("no variant")?.options;
    let variants = session.variants.iter().zip(&results.runs);
    let document = Document {
        schema_version: SCHEMA_VERSION,
        seed: session.seed,
        interrupted: results.interrupted,
        buffers: options.bufs,
        ring_size: options.ring_size,
        driver_cpu: session.place.driver,
        device_cpu: session.place.device,
        events: results.events.iter().map(counted).collect(),
        variants: variants
            .map(|(variant, runs)| self::variant(&variant.name, &variant.switches, runs))
            .collect(),
        ratios: ratios(session, results)
            .into_iter()
            .map(|ratio| Ratio {
                new: ratio.new,
                old: ratio.old,
                of: ratio.of,
                value: ratio.interval.value,
                low: ratio.interval.low,
                high: ratio.interval.high,
            })
            .collect(),
    };
    let mut text =
        serde_json::to_string_pretty(&document).context("cannot write the results as JSON")?;
    text.push('\n');
    Ok(text)
}

fn counted((event, scope): &(Event, Result<Scope, String>)) -> Counted<'_> {
    Counted {
        event: *event,
        scope: scope.as_ref().ok().copied(),
        reason: scope.as_ref().err().map(String::as_str),
    }
}

fn variant<'a>(name: &'a str, switches: &'a str, runs: &[Run]) -> Variant<'a> {
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts of a benchmark are far below 2^53"
    )]
    let field = |field: fn(&Tally) -> u64| {
        Measure::of(runs.iter().map(|run| field(&run.tally) as f64).collect())
    };
    let event = |event| counts(runs, event).and_then(Measure::of);
    let per_buffer: Vec<f64> = runs.iter().map(|run| run.tally.ns_per_buffer()).collect();
    Variant {
        name,
        switches,
        time: Measure::of(seconds(runs)),
        ns_per_buffer: Summary::of(&per_buffer).map(|summary| summary.median),
        kicks: field(|tally| tally.kicks),
        calls: field(|tally| tally.calls),
        spurious: field(|tally| tally.spurious),
        resets: field(|tally| tally.resets),
        task_clock_ns: event(Event::TaskClock),
        context_switches: event(Event::ContextSwitches),
        cycles: event(Event::Cycles),
        instructions: event(Event::Instructions),
    }
}
