//! `vmbell stat`: prints the events of one workload, with PV EOI off and on.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::backends::Choice;
use super::bench_args::BackendName;
use super::exit::{Exit, Usage};
use super::interrupt;
use super::measured::{Begun, clock};
use super::output::print;
use super::values;
use vmbell::hypervisor::SpinPolicy;
use vmbell_bench::stat::{Mode, Tick, Workload};
use vmbell_bench::{EarlyStop, Limit, Options, Plan, Record, timing};
use vmbell_report::{Counting, Form, Look, Report, json, terminal};

/// Count what happens to a guest that takes interrupts, with PV EOI off and on
#[derive(Args, Debug)]
pub(super) struct StatArgs {
    /// Interrupts a second, as near as the host allows
    #[arg(long, value_name = "N", default_value_t = 25_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,

    /// For how long in each mode
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = values::positive_duration)]
    duration: Duration,

    /// Exactly so many interrupts, each when the guest asks for it: the counts do not depend on time
    #[arg(long, conflicts_with_all = ["rate", "duration"])]
    deterministic: bool,

    /// How many, with --deterministic
    #[arg(short = 'n', long, value_name = "N", default_value_t = 500, requires = "deterministic",
          value_parser = clap::value_parser!(u64).range(1..))]
    interrupts: u64,

    /// A line on stderr each time this has passed
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s",
          value_parser = values::positive_duration)]
    interval: Option<Duration>,

    /// Leave out events that never happened
    #[arg(short = 'z', long)]
    skip_zero: bool,

    /// Show events whose name contains this only
    #[arg(short, long, value_name = "TEXT")]
    filter: Option<String>,

    /// What runs the guest
    #[arg(long, value_enum, default_value_t = BackendName::Auto)]
    backend: BackendName,

    /// Stop after this time and exit with 124; 0 for no limit
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::duration)]
    timeout: Duration,

    /// As JSON, the report of `vmbell bench`
    #[arg(long)]
    json: bool,
}

/// Runs both modes and prints their counts.
pub(super) fn run(args: &StatArgs) -> Result<Exit> {
    let choice = Choice::of(args.backend)?;
    choice.check()?;
    let workload = if args.deterministic {
        let interrupts = args.interrupts;
        Workload::Lockstep { interrupts }
    } else {
        Workload::Paced {
            rate: args.rate,
            time: args.duration,
        }
    };
    let timeout = (!args.timeout.is_zero()).then_some(args.timeout);
    let limit = Limit::new(
        timeout,
        interrupt::catch().context("cannot watch for SIGINT")?,
    );
    let timing = timing::here().map_err(Usage::new)?;
    let options = Options {
        cpus: Vec::new(),
        spin: SpinPolicy::Sleep,
        clock: clock(timing),
        limit: limit.clone(),
        timing,
    };
    let begun = Begun::now();
    let (mut record, mut source) = (Record::default(), String::new());
    for mode in [Mode::Off, Mode::On] {
        match choice.stat(workload, mode, limit.clone(), args.interval, &mut line) {
            Ok(measured) => {
                record.series.push(measured.series);
                source = measured.source;
            }
            Err(error) => {
                return match limit.stop() {
                    Some(EarlyStop::Interrupted) => Ok(Exit::Interrupted),
                    Some(EarlyStop::TimedOut) => Ok(Exit::TimedOut),
                    None => Err(error),
                };
            }
        }
    }
    let counting = Counting {
        form: Form::Events,
        text: describe(workload),
        operation: "interrupt".to_owned(),
        source,
        events: Vec::new(),
    };
    let plan = plan(workload);
    let mut report = begun.report(
        &record,
        (&options, &plan),
        choice.report(),
        Some(counting),
        &[],
    );
    leave_out(&mut report, args);
    print(&if args.json {
        json(&report)
    } else {
        terminal(&report, Look::default())
    })?;
    Ok(Exit::Good)
}

/// The plan that the report states: one run in each mode. Nothing is resampled, so the seed has no
/// effect.
const fn plan(workload: Workload) -> Plan {
    let (min_time, ops) = match workload {
        Workload::Paced { time, .. } => (time, None),
        Workload::Lockstep { interrupts } => (Duration::ZERO, Some(interrupts)),
    };
    Plan {
        runs: 1,
        warmup: 0,
        min_time,
        ops,
        ..Plan::counted()
    }
}

/// Removes the events that the arguments exclude.
fn leave_out(report: &mut Report, args: &StatArgs) {
    let happened = |runs: &[u64]| runs.iter().any(|count| *count > 0);
    let events = report.results.iter().flat_map(|row| row.events.iter());
    let counted: BTreeSet<String> = events
        .filter(|(_, runs)| happened(runs))
        .map(|(name, _)| name.to_owned())
        .collect();
    for row in &mut report.results {
        row.events.retain(|name| {
            let named = args.filter.as_ref().is_none_or(|part| name.contains(part));
            named && (counted.contains(name) || !args.skip_zero)
        });
    }
}

fn describe(workload: Workload) -> String {
    match workload {
        Workload::Paced { rate, time } => {
            format!("{rate} MSIs a second to a guest that halts, for {time:?} in each mode")
        }
        Workload::Lockstep { interrupts } => {
            format!("{interrupts} MSIs to a guest that halts, each when it asks for it")
        }
    }
}

fn line(tick: Tick) {
    let Tick {
        mode,
        elapsed,
        exits,
        interrupts,
    } = tick;
    eprintln!(
        "{:>8.1} s  {}  {exits:>9} exits  {interrupts:>9} interrupts",
        elapsed.as_secs_f64(),
        mode.name()
    );
}
