//! `vmbell sweep`: pauses, saves and restores VMMs at many instants of their guests' traffic, and says which notification
//! was lost.
//!
//! `vm` starts and commands VMMs, `traffic` keeps the VM that is paused, `events` tries one instant, `restores` restores its
//! snapshot, `observe` looks and listens, `view` shows the result. What is open, the fault's name and the report's model
//! are in `vmbell_sweep`.

mod args;
mod events;
mod observe;
mod restores;
mod traffic;
mod view;
mod vm;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub(crate) use self::args::SweepArgs;
use self::traffic::{Obstacle, TrafficSweep};
use self::vm::{SweepFolder, SweptVmm, VmmOption, chosen};
use super::exit::{Exit, Unavailable, Usage};
use super::interrupt;
use super::output::deliver::show;
use super::output::style::Style;
use super::output::{print, text::cleaned};
use crate::process::{self, ProgramTask};
use vmbell_bench::CommandLimit;
use vmbell_bench::timing;
use vmbell_lab::{progress_bar, record};
use vmbell_report::{Timing, units};
use vmbell_sweep::merge::merge;
use vmbell_sweep::report::{
    Event, EventResults, SCHEMA_VERSION, Shown, SweepReport, SweptVmm as SweptVmmResults, Traffic,
    Window,
};

/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(200);
/// The most bytes of a report.
const MOST_REPORT: u64 = 1 << 30;
/// The time limit of a program that prints its version.
const VERSION: Duration = Duration::from_secs(5);

/// Runs `vmbell sweep`.
pub(super) fn run(args: &SweepArgs) -> Result<Exit> {
    if !args.merge.is_empty() {
        let parts: Result<Vec<SweepReport>> = args.merge.iter().map(|file| read(file)).collect();
        let merged = merge(&parts?).map_err(Usage::new)?;
        return deliver(args, &merged);
    }
    let vmms = chosen(&args.names, &args.vmm).map_err(Usage::new)?;
    if vmbell_probe_image::ELF.is_empty() {
        bail!("this vmbell has no guest image: it is built on x86-64 Linux only");
    }
    if args.edit.is_some() {
        for vmm in &vmms {
            if vmm.memory_file(Path::new("")).is_none() {
                let text = format!("--edit: the description of {} has no 'memory'", vmm.name());
                return Err(Usage::new(text).into());
            }
        }
    }
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    let limit = CommandLimit::new(None, interrupted);
    let desk = SweepFolder::new(&limit)?;
    let mut report = SweepReport {
        schema_version: SCHEMA_VERSION,
        seed: args.seed,
        instants: args.instants,
        window: args.window.into(),
        again: args.again,
        given: args.vmm.iter().map(VmmOption::to_string).collect(),
        repeats: timing::here()? == Timing::Instructions,
        edit: args.edit.map(Into::into),
        shard: args.shard,
        vmms: Vec::new(),
    };
    for vmm in &vmms {
        let swept = match vmm.program() {
            // A VMM is left out silently if it is neither named nor installed.
            Err(_) if !args.has_named(vmm.name()) => continue,
            Err(reason) => results(vmm.as_ref(), None, Some(reason)),
            Ok(program) => {
                let mut swept = results(vmm.as_ref(), version(&program, &limit), None);
                sweep(args, &desk, vmm.as_ref(), &mut swept)?;
                swept.excuse();
                swept
            }
        };
        report.vmms.push(swept);
        if limit.stop().is_some() {
            break;
        }
    }
    let exit = deliver(args, &report)?;
    Ok(match limit.stop() {
        Some(_) => Exit::Interrupted,
        None => exit,
    })
}

fn results(
    vmm: &dyn SweptVmm,
    version: Option<String>,
    skipped: Option<String>,
) -> SweptVmmResults {
    SweptVmmResults {
        name: vmm.name().to_owned(),
        version,
        accelerator: vmm.accelerator().to_owned(),
        skipped,
        failed: None,
        events: Vec::new(),
    }
}

/// The first line that a program prints for `--version`.
fn version(program: &Path, limit: &CommandLimit) -> Option<String> {
    let words = [program.into(), "--version".into()];
    let ended = process::run(&ProgramTask::new(&words, VERSION, limit)).ok()?;
    let text = String::from_utf8_lossy(&ended.output).into_owned();
    let line = text.lines().next().map(cleaned)?;
    (!line.is_empty()).then_some(line)
}

/// The kinds of traffic with a VMM, in the order of the table.
fn traffics(args: &SweepArgs, vmm: &dyn SweptVmm) -> Vec<Traffic> {
    let is_wanted = Window::from(args.window) == Window::Limiter;
    let mut traffics = Vec::new();
    for device in &args.device {
        for wait in &args.wait {
            let rings = args.ring.iter();
            let rings = rings.flat_map(|ring| args.event_idx.iter().map(move |idx| (ring, idx)));
            for (ring, event_idx) in rings {
                traffics.push(Traffic {
                    device: (*device).into(),
                    wait: (*wait).into(),
                    event_idx: (*event_idx).into(),
                    packed: *ring == args::RingName::Packed,
                    in_flight: args.in_flight,
                    limited: is_wanted && vmm.limits((*device).into()),
                });
            }
        }
    }
    traffics
}

/// The numbers of the instants to try.
fn numbers(args: &SweepArgs) -> Vec<u32> {
    let all = match args.instant {
        Some(number) => number..number + 1,
        None => 0..args.instants,
    };
    all.filter(|number| args.shard.is_none_or(|shard| shard.has(*number)))
        .collect()
}

/// Sweeps one VMM. What was tried until it failed or was stopped is kept; an error is not the VMM's.
fn sweep(
    args: &SweepArgs,
    desk: &SweepFolder<'_>,
    vmm: &dyn SweptVmm,
    swept: &mut SweptVmmResults,
) -> Result<(), Unavailable> {
    let numbers = numbers(args);
    let events = args.events.iter().map(|event| Event::from(*event));
    let events: Vec<Event> = [Event::Control].into_iter().chain(events).collect();
    let traffics = traffics(args, vmm);
    let all = traffics.len() * events.len() * numbers.len();
    let mut progress = Progress::new(!args.quiet, all, vmm.name());
    for traffic in traffics {
        let mut sweep = TrafficSweep::new(args, desk, vmm, traffic);
        let obstacle = match vmm.lacks(Event::Control, traffic.device) {
            Some(reason) => Some(Obstacle::HasNone(reason)),
            None => match sweep.start() {
                Err(Obstacle::Host(error)) => return Err(Unavailable::new(error)),
                started => started.err(),
            },
        };
        for event in &events {
            let mut results = EventResults {
                traffic,
                event: *event,
                has_none: match &obstacle {
                    Some(Obstacle::HasNone(reason)) => Some(reason.clone()),
                    _ => vmm.lacks(*event, traffic.device),
                },
                instants: Vec::new(),
            };
            let is_tried = results.has_none.is_none();
            let tried = numbers.iter().filter(|_| is_tried && obstacle.is_none());
            for number in tried {
                match sweep.try_instant(*event, *number) {
                    Ok(result) => results.instants.push(result),
                    Err(Obstacle::Stopped) => break,
                    Err(Obstacle::Host(error)) => return Err(Unavailable::new(error)),
                    Err(Obstacle::HasNone(reason) | Obstacle::Failed(reason)) => {
                        swept.failed = Some(reason);
                        break;
                    }
                }
                progress.step();
            }
            swept.events.push(results);
            if swept.failed.is_some() || desk.limit.stop().is_some() {
                return Ok(());
            }
        }
        if let Some(Obstacle::Failed(reason)) = obstacle {
            swept.failed = Some(reason);
            return Ok(());
        }
    }
    Ok(())
}

/// The progress bar; in the lab, records for the lab's own bar.
struct Progress {
    bar: indicatif::ProgressBar,
    name: String,
    done: u64,
    all: u64,
    records: bool,
}

impl Progress {
    fn new(shown: bool, all: usize, name: &str) -> Self {
        let bar = progress_bar(shown, "Sweep [{bar:30}] {pos}/{len}{left}  {wide_msg}");
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        bar.set_length(all);
        bar.set_message(name.to_owned());
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            name: name.to_owned(),
            done: 0,
            all,
            records: shown && timing::is_in_lab(),
        }
    }

    fn step(&mut self) {
        self.done += 1;
        self.bar.inc(1);
        if self.records {
            let record = record(self.done, self.all, &self.name);
            // A failed write must not fail the sweep.
            let _ = io::stderr().write_all(record.as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Reads the report of a shard.
fn read(file: &Path) -> Result<SweepReport> {
    let shown = || format!("cannot read {}", file.display());
    let len = fs::metadata(file).with_context(shown)?.len();
    if len > MOST_REPORT {
        bail!(
            "{}: more than {}",
            file.display(),
            units::bytes(MOST_REPORT)
        );
    }
    let text = fs::read_to_string(file).with_context(shown)?;
    let report = serde_json::from_str(&text);
    let report: SweepReport =
        report.with_context(|| format!("{} is not a report of vmbell sweep", file.display()))?;
    match report.schema_version {
        SCHEMA_VERSION => Ok(report),
        other => bail!(
            "{} has the schema version {other}, not {SCHEMA_VERSION}",
            file.display()
        ),
    }
}

/// Prints the report, and returns its exit status.
fn deliver(args: &SweepArgs, report: &SweepReport) -> Result<Exit> {
    if args.json {
        let json = serde_json::to_string_pretty(report).context("cannot write JSON")?;
        print(&format!("{json}\n"))?;
    } else {
        show(
            Style::Auto,
            false,
            &view::blocks(report, args.instant.is_some()),
        )?;
    }
    Ok(match report.shown() {
        Shown::NothingLost => Exit::Good,
        Shown::Lost => Exit::Failed,
        Shown::Inconclusive => Exit::Inconclusive,
        Shown::Skipped => Exit::Skipped,
    })
}
