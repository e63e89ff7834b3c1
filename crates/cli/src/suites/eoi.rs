//! `vmbell bench eoi`: prints the events of a guest that takes interrupts, with PV EOI off and on.
//!
//! [`vmbell_bench::stat`] has the two entries, which the bench's runner measures in turns.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::measure_args::MeasureArgs;
use super::measured::{BegunBench, exit};
use super::supervise::supervise;
use crate::args::exports::Exports;
use crate::args::values;
use crate::args::{MEASUREMENT, OUTPUT};
use crate::backends::{BackendChoice, BackendName};
use crate::exit::{Exit, Usage};
use crate::output::deliver::deliver;
use crate::output::progress::BenchProgress;
use vmbell_bench::stat::{InterruptPace, ON, SPARED, TAKEN};
use vmbell_bench::{
    BenchPhase, BenchPlan, Observer, Record, RunSample, SubjectOptions, did_you_mean, host,
};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::{Kind, Look, Report, Row, Status, Timing, Work};

/// The number of interrupts with `--deterministic`.
const INTERRUPTS: u64 = 500;
/// What the interrupts are.
const EDGES: &str = if cfg!(target_arch = "aarch64") {
    "SPIs"
} else {
    "MSIs"
};
/// The default number of interrupts per second without `--deterministic`, and for how long in each mode.
const RATE: u32 = 25_000;
const DURATION: Duration = Duration::from_secs(1);
/// The default number of runs of each mode without `--deterministic`.
const RUNS: u32 = 10;

const EXAMPLES: &str = "\
Examples:
  vmbell bench eoi -z                       omit events that did not happen
  vmbell bench eoi --rate 100000 -d 5s      raise 100,000 interrupts per second
  vmbell bench eoi --deterministic -n 1000  count exactly 1,000 interrupts
  vmbell bench eoi --interval -f exit       print the exits every second
  vmbell lab -- vmbell bench eoi            count without /dev/kvm
";

/// Count the exits and KVM events of a guest that takes interrupts, with PV EOI off and on
///
/// The guest ends each interrupt and does nothing else. `vmbell bench net vmbell-no-pv-eoi vmbell-ioeventfd` counts
/// what PV EOI saves a Linux with netperf.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EoiArgs {
    /// Raise N interrupts per second, or as many as the host allows [default: 25000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = MEASUREMENT)]
    rate: Option<u32>,

    /// Measure each mode for this time, in turns, in N runs each (--runs) [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = values::positive_duration, help_heading = MEASUREMENT)]
    duration: Option<Duration>,

    /// Measure each mode in N runs [default: 10; 1 with --deterministic]
    #[arg(short, long, value_name = "N", value_parser = values::positive::<u32>, help_heading = MEASUREMENT)]
    runs: Option<u32>,

    /// Raise an exact number of interrupts, each when the guest asks for it, so that the counts do not depend on time
    #[arg(long, conflicts_with_all = ["rate", "duration"], help_heading = MEASUREMENT)]
    deterministic: bool,

    /// Raise N interrupts, with --deterministic [default: 500]
    #[arg(short = 'n', long, value_name = "N", requires = "deterministic",
          value_parser = clap::value_parser!(u64).range(1..), help_heading = MEASUREMENT)]
    interrupts: Option<u64>,

    /// Print the counts on stderr at this interval [default of TIME: 1s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s",
          value_parser = values::positive_duration, help_heading = OUTPUT)]
    interval: Option<Duration>,

    /// Omit events that did not happen
    #[arg(short = 'z', long, help_heading = OUTPUT)]
    skip_zero: bool,

    /// Show only events whose name contains TEXT
    #[arg(short, long, value_name = "TEXT", help_heading = OUTPUT)]
    filter: Option<String>,

    /// Run the guest on this backend [default: auto]
    #[arg(long, value_enum, help_heading = MEASUREMENT)]
    backend: Option<BackendName>,

    #[command(flatten)]
    measure: MeasureArgs,
}

impl EoiArgs {
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(match self.deterministic {
            true => 1,
            false => RUNS,
        })
    }

    const fn rate(&self) -> u32 {
        match self.rate {
            Some(rate) => rate,
            None => RATE,
        }
    }
}

/// Runs both modes in turns and prints their counts.
pub(crate) fn run(args: &EoiArgs) -> Result<Exit> {
    let choice = BackendChoice::of(args.backend.unwrap_or(BackendName::Auto))?;
    choice.check()?;
    let exports = Exports::open(&args.measure.exports)?;
    let begun = BegunBench::now()?;
    let delivery = args.measure.delivery(&begun, Look::default())?;
    let options = SubjectOptions {
        cpus: args.measure.cpus()?,
        spin: SpinPolicy::Sleep,
        clock: begun.clock,
        limit: args.measure.limit()?,
        timing: begun.timing,
        marks: None,
    };
    if let Some(part) = &args.filter {
        check_filter(part, &choice.event_names(&options))?;
    }
    let (pace, plan) = (pace(args), plan(args, begun.timing));
    let shown = args.measure.progress();
    let progress = BenchProgress::without_bar(shown, plan.warmup + plan.runs);
    let lines = IntervalLines::every(args.interval, progress);
    let mut record = supervise(choice.stat(pace), options.clone(), plan, lines)?;
    record.keep_whole_rounds();
    let work = Work {
        text: describe(args, &record),
        operation: "interrupt".to_owned(),
        source: source(&record),
        events: Vec::new(),
    };
    let compared = events(&record);
    let compared: Vec<&str> = compared.iter().map(String::as_str).collect();
    let facts = (&options, &plan);
    let backends = vec![choice.report()];
    let mut report = begun.report(&record, facts, backends, Kind::Eoi { work }, &compared);
    without_the_bit(&mut report);
    leave_out(&mut report, args)?;
    deliver(&report, exports, delivery, Vec::new())?;
    Ok(exit(&report))
}

const fn pace(args: &EoiArgs) -> InterruptPace {
    if args.deterministic {
        InterruptPace::Lockstep
    } else {
        InterruptPace::Rate(args.rate())
    }
}

/// The plan: both modes take the same number of interrupts in each run. With `--interrupts` there is one run; a time is
/// divided into several runs, each with as many interrupts as this host takes in that time.
fn plan(args: &EoiArgs, timing: Timing) -> BenchPlan {
    let each = args.duration.unwrap_or(DURATION) / args.runs();
    let most = (f64::from(args.rate()) * each.as_secs_f64()).round();
    // The value is not negative, and above u64::MAX the conversion saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let most = (most as u64).max(1);
    let (runs, min_time, ops) = if args.deterministic {
        let interrupts = args.interrupts.unwrap_or(INTERRUPTS);
        (args.runs(), Duration::ZERO, Some(interrupts))
    } else {
        (args.runs(), each, None)
    };
    BenchPlan {
        runs,
        warmup: 1,
        min_time,
        ops,
        most_time: None,
        same_ops: Some((1, most)),
        events: false,
        budget: None,
        seed: args.measure.seed(timing),
    }
}

/// What counted the events; empty if no guest could be created.
fn source(record: &Record) -> String {
    let counters = record.series.iter().map(|one| one.setting.counter.clone());
    counters.flatten().next().unwrap_or_default()
}

/// The names of all events that were counted.
fn events(record: &Record) -> BTreeSet<String> {
    let samples = record.series.iter().filter_map(|one| one.samples.first());
    samples
        .flat_map(|sample| sample.events.iter().map(|(name, _)| name.clone()))
        .collect()
}

/// If PV EOI's bit ended no interrupt, PV EOI causes no difference between the modes: the report says so and compares
/// nothing.
fn without_the_bit(report: &mut Report) {
    let Some(on) = report.results.iter_mut().find(|row| row.command == ON) else {
        return;
    };
    let Some(measured) = on.measured_mut() else {
        return;
    };
    let spared = measured.counts.get(SPARED).unwrap_or_default();
    if spared.iter().any(|count| *count > 0) {
        return;
    }
    measured.ratio = None;
    measured.ratios.clear();
    on.reference = None;
    on.note = Some(format!(
        "PV EOI ended no interrupt, so there is nothing to compare: {}",
        why_no_bit(&on.backend)
    ));
}

/// Why a backend with PV EOI may never set the bit.
fn why_no_bit(backend: &str) -> &'static str {
    let on = |module: &str, parameter: &str| {
        let path = format!("/sys/module/{module}/parameters/{parameter}");
        host::line(&path).is_some_and(|value| matches!(value.as_str(), "Y" | "1"))
    };
    match backend {
        "kvm" if on("kvm_intel", "enable_apicv") => {
            "kvm_intel.enable_apicv is on, so the CPU ends interrupts without an exit and KVM has no use \
             for the bit"
        }
        "kvm" if on("kvm_amd", "avic") => {
            "kvm_amd.avic is on, so the CPU ends interrupts without an exit and KVM has no use for the bit"
        }
        "kvm" => "this KVM never set it",
        _ => {
            "every interrupt was followed by another one that waited, or by an exit that took the bit back"
        }
    }
}

/// Returns the name of an event without its subsystem, which is the same for most.
fn own_name(event: &str) -> &str {
    event.split_once(':').map_or(event, |(_, name)| name)
}

/// Fails if there are events, but none with `part` in its name.
fn check_filter(part: &str, names: &BTreeSet<String>) -> Result<(), Usage> {
    if names.is_empty() || names.iter().any(|name| name.contains(part)) {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = did_you_mean(
        own_name(part),
        &names.iter().map(|name| own_name(name)).collect::<Vec<_>>(),
    );
    Err(Usage::new(format!(
        "--filter: no event has '{part}' in its name{hint}; the events are {}",
        names.join(", ")
    )))
}

/// Removes the events that the arguments exclude; fails if no event matches `--filter`.
fn leave_out(report: &mut Report, args: &EoiArgs) -> Result<()> {
    let happened = |runs: &[u64]| runs.iter().any(|count| *count > 0);
    let measured = || report.results.iter().filter_map(Row::measured);
    let all = || measured().flat_map(|row| row.events.iter());
    let counted: BTreeSet<String> = all()
        .filter(|(_, runs)| happened(runs))
        .map(|(name, _)| name.to_owned())
        .collect();
    let named = |name: &str| args.filter.as_ref().is_none_or(|part| name.contains(part));
    if let Some(part) = &args.filter {
        let names = all().map(|(name, _)| name.to_owned()).collect();
        check_filter(part, &names)?;
    }
    let rows = report.results.iter_mut();
    for row in rows.filter_map(Row::measured_mut) {
        row.events
            .retain(|name| named(name) && (counted.contains(name) || !args.skip_zero));
    }
    Ok(())
}

fn describe(args: &EoiArgs, record: &Record) -> String {
    let runs = args.runs();
    let rate = args.rate();
    let each = record.series.iter().map(|one| one.ops_per_run()).max();
    let each = each.unwrap_or_default();
    if args.deterministic {
        format!("{each} {EDGES} to a guest that halts, each when it asks for it")
    } else {
        format!(
            "{rate} {EDGES} a second to a guest that halts, {runs} runs of {each} in each mode, by turns"
        )
    }
}

/// Prints a line on stderr after each interval, with the events since the last line.
struct IntervalLines {
    progress: BenchProgress,
    interval: Option<Duration>,
    begun: Instant,
    last: Instant,
    exits: u64,
    interrupts: u64,
}

impl IntervalLines {
    fn every(interval: Option<Duration>, progress: BenchProgress) -> Self {
        let now = Instant::now();
        Self {
            progress,
            interval,
            begun: now,
            last: now,
            exits: 0,
            interrupts: 0,
        }
    }
}

impl Observer for IntervalLines {
    fn phase(&mut self, phase: BenchPhase, steps: u64) {
        self.progress.phase(phase, steps);
    }

    fn step(&mut self, name: &str, sample: Option<&RunSample>) {
        self.progress.step(name, sample);
        let (Some(interval), Some(sample)) = (self.interval, sample) else {
            return;
        };
        let taken = sample.counts.iter().find(|(name, _)| name == TAKEN);
        self.interrupts += taken.map_or(0, |(_, count)| *count);
        self.exits += sample.exits.unwrap_or_default();
        if self.last.elapsed() < interval {
            return;
        }
        eprintln!(
            "{:>8.1} s  {name:<10}  {:>9} exits  {:>9} interrupts in both modes",
            self.begun.elapsed().as_secs_f64(),
            self.exits,
            self.interrupts,
        );
        (self.last, self.exits, self.interrupts) = (Instant::now(), 0, 0);
    }

    fn lost(&mut self, name: &str, status: Status, reason: &str) {
        self.progress.lost(name, status, reason);
        eprintln!("{name} {}: {reason}", status.name());
    }
}
