//! `vmbell top`: shows the notifications of the VMs running on this host, and what they cost each VM.

mod addresses;
mod cells;
mod columns;
mod costs;
mod halts;
mod interval;
mod json;
mod live;
mod openmetrics;
mod parts;
mod reasons;
mod record;
mod screen;
mod terminal;
mod text;
mod view;

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use self::interval::TopInterval;
use self::openmetrics::Metrics;
use self::record::Recorder;
use super::exit::{Exit, Unavailable, Usage};
use super::interrupt;
use super::output::print_to_reader;
use crate::args::OUTPUT;
use crate::args::exports::{BlockExportArgs, BlockExports, distinct};
use crate::args::values;
use crate::output::locale;
use vmbell_top::bpf::Metric;
use vmbell_top::costs::Costs;
use vmbell_top::reading::Reading;
use vmbell_top::sources::{Choice, Sources};

/// Headings of options in `--help`.
const INTERVALS: &str = "Screen or tables, and intervals";
const COUNTED: &str = "What is counted";

const EXAMPLES: &str = "\
Examples:
  vmbell top                          watch the VMs of this host; F1 lists keys
  vmbell top --once                   print one table, measured for one second
  vmbell top -b -n 10 -d 5            print ten tables of 5 seconds each
  vmbell top --pid 4711 --once        measure the VMs of one process only
  vmbell top --with reasons,time      also show exit reasons and the VMM's time
  vmbell top --costs costs.json       also show what exits cost, and what would
                                      cost less
  vmbell top --json -d 10 >top.jsonl  write cumulative counts every 10 seconds
  vmbell top --source counters        use only KVM's statistics, which do not
                                      slow the VMs down
  vmbell top --record top.jsonl && vmbell report top.jsonl
      record the screen, and make an HTML page from the recording
  vmbell top -b -d 15 >/dev/null --export-openmetrics \\
      /var/lib/prometheus/node-exporter/top.prom
      write totals every 15 seconds to a file that node_exporter reads

Exit status:
  0    success, even if a source that was not asked for is missing
  1    something failed, or the process of --pid has no VM
  2    the arguments are wrong
  69   the source of --source, or every source, is unusable here
  130  interrupted by SIGINT (143: by SIGTERM)
";

/// How often to check for a signal while waiting.
const SLICE: Duration = Duration::from_millis(50);

/// Show exits, ioeventfds and interrupts of the VMs that run on this host, with any VMM on KVM
///
/// VMs are found by their processes' descriptors, and are neither changed nor stopped. Counting by address needs root:
/// programs (BPF) are attached to KVM's functions, and are gone when this command ends.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct TopArgs {
    /// Print one table and end; the same as `-n 1`
    #[arg(long, conflicts_with = "number", help_heading = INTERVALS)]
    once: bool,

    /// Print tables one after another instead of showing a live screen, as without a terminal
    #[arg(short, long, help_heading = INTERVALS)]
    batch: bool,

    /// End after N tables [default: at `q` or a signal]
    #[arg(short, long, value_name = "N", value_parser = values::positive::<u64>, help_heading = INTERVALS)]
    number: Option<u64>,

    /// Measure for this time before each table
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = values::positive_duration, help_heading = INTERVALS)]
    delay: Duration,

    /// Show only the VMs of this process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), help_heading = COUNTED)]
    pid: Option<u32>,

    /// Use only this source, and fail if it cannot be used
    #[arg(long, value_enum, value_name = "NAME", help_heading = COUNTED)]
    source: Option<Source>,

    /// Count more, with programs that slow VMs down further; fail if that is impossible
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', help_heading = COUNTED)]
    with: Vec<With>,

    /// Write the VMs' totals as OpenMetrics text at each interval, for node_exporter's textfile collector; - is stdout
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    export_openmetrics: Option<PathBuf>,

    /// Show what the VMs' exits cost and what would cost less, by this host's report of `vmbell bench`
    #[arg(long, value_name = "FILE", conflicts_with = "json", help_heading = OUTPUT)]
    costs: Option<PathBuf>,

    /// Record all counts in this file, from which `vmbell report` makes a page
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    record: Option<PathBuf>,

    /// Print a line of JSON for each interval, with counts since the command's start
    #[arg(long, conflicts_with = "batch", help_heading = OUTPUT)]
    json: bool,

    #[command(flatten)]
    exports: BlockExportArgs,
}

/// Where counts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    /// Programs in the kernel: by address, exact
    Bpf,
    /// KVM's statistics (debugfs): a few sums for each VM
    Counters,
}

/// What is counted only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// All exits, by the CPU's reasons
    Reasons,
    /// The time that the VMM takes for an exit, by address
    Time,
    /// Accesses that KVM answers: local APIC, I/O APIC, PIC, PIT, MSRs
    Kernel,
}

impl With {
    const fn metric(self) -> Metric {
        match self {
            Self::Reasons => Metric::Exits,
            Self::Time => Metric::VmmTime,
            Self::Kernel => Metric::ByKvm,
        }
    }
}

/// Shows the VMs' activity until all tables are shown, or a key or a signal ends the command.
pub(super) fn run(args: &TopArgs) -> Result<Exit> {
    let interrupted = interrupt::catch().context("cannot catch SIGINT")?;
    let choice = match args.source {
        None => Choice::Available,
        Some(Source::Bpf) => Choice::Bpf,
        Some(Source::Counters) => Choice::Counters,
    };
    let costs = args.costs.as_deref().map(costs::read).transpose()?;
    let with: Vec<Metric> = args.with.iter().map(|with| with.metric()).collect();
    let mut files = args.exports.paths();
    files.extend(args.export_openmetrics.as_deref());
    files.extend(args.record.as_deref());
    distinct(&files).map_err(Usage::new)?;
    let exports = BlockExports::open(&args.exports)?;
    let to_stdout = [args.json, args.prints_metrics(), exports.use_stdout()];
    if to_stdout.into_iter().filter(|is| *is).count() > 1 {
        return Err(Usage::new("only one of --json and --export-... can go to stdout").into());
    }
    let metrics = args.export_openmetrics.clone();
    let metrics = metrics.map(Metrics::new).transpose()?;
    let sources = Sources::open(choice, args.pid, &with);
    let mut sources = sources.map_err(|error| match error.is_of_source() {
        true => Unavailable::new(error).into(),
        false => anyhow::Error::from(error),
    })?;
    let recorder = args.record.clone().map(Recorder::create).transpose()?;
    let first = sources.read()?;
    let mut counts = TopCounts {
        before: first.clone(),
        own: own_cpu(),
        sources,
        first,
        metrics,
        costs,
        recorder,
    };
    counts.record()?;
    let mut last = None;
    let exit = match args.is_live() {
        true => {
            let next = || counts.next();
            live::run(next, &mut last, args.delay, args.number, interrupted)
        }
        false => batch(args, &mut counts, &mut last, interrupted),
    }?;
    if let Some(interval) = &last {
        exports.finish("vmbell top", &text::blocks(interval))?;
    }
    Ok(exit)
}

impl TopArgs {
    /// Whether a live screen is shown.
    fn is_live(&self) -> bool {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let is_dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let is_batch = self.once || self.batch || self.json || !self.prints_tables();
        !is_batch && is_terminal && !is_dumb
    }

    /// Whether tables go to stdout, rather than an export.
    fn prints_tables(&self) -> bool {
        !self.prints_metrics() && !self.exports.paths().contains(&Path::new("-"))
    }

    /// Whether stdout is for metrics.
    fn prints_metrics(&self) -> bool {
        self.export_openmetrics.as_deref() == Some(Path::new("-"))
    }
}

/// The sources, and the readings to which the next ones are compared.
struct TopCounts {
    sources: Sources,
    first: Reading,
    before: Reading,
    /// This process's CPU time at the previous reading.
    own: Duration,
    metrics: Option<Metrics>,
    /// What operations cost on this host, if known.
    costs: Option<Costs>,
    recorder: Option<Recorder>,
}

impl TopCounts {
    /// Reads the sources and returns what happened since the previous reading.
    fn next(&mut self) -> Result<TopInterval> {
        let now = self.sources.read()?;
        let own = own_cpu();
        let used = own.saturating_sub(std::mem::replace(&mut self.own, own));
        let interval = TopInterval {
            costs: self.costs.clone(),
            ..TopInterval::new(&self.sources, &now.since(&self.before), used)
        };
        if let Some(metrics) = &mut self.metrics {
            let command = openmetrics::TopMetrics {
                sources: interval.sources.clone(),
                lost: now.bpf.as_ref().map(|bpf| bpf.lost),
                unreadable: now.unreadable,
                own,
            };
            metrics.write(&self.sources.vms(&now), &command)?;
        }
        self.before = now;
        self.record()?;
        Ok(interval)
    }

    /// Adds the last reading to the recording.
    fn record(&mut self) -> Result<()> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        recorder.add(&json::line(&self.sources, &self.before, &self.first)?)
    }
}

/// Prints tables, or lines of JSON, until the reader of stdout has gone. Leaves the last interval in `last`.
fn batch(
    args: &TopArgs,
    counts: &mut TopCounts,
    last: &mut Option<TopInterval>,
    interrupted: &AtomicBool,
) -> Result<Exit> {
    let mut left = if args.once { Some(1) } else { args.number };
    while left != Some(0) {
        // Each table's interval begins where the previous one ended, so the times do not drift.
        let end = counts.before.at + args.delay;
        loop {
            // This is checked even if reading took longer than the delay.
            if interrupted.load(Ordering::Acquire) {
                return Ok(Exit::Interrupted);
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            thread::sleep(rest.min(SLICE));
        }
        let interval = last.insert(counts.next()?);
        let shown = match args.json {
            true => json::line(&counts.sources, &counts.before, &counts.first)?,
            false if !args.prints_tables() => String::new(),
            false => locale::shown(&text::text(interval, terminal::width())).into_owned(),
        };
        if !print_to_reader(shown.as_bytes())? {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Good)
}

/// The CPU time of this process.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
