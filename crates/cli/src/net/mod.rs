//! `vmbell bench net`: Linux's own network driver in a guest, by each way that a VMM has to serve it, with the real netperf.
//!
//! `way` says what VMM runs with which device, `pattern` what netperf does, `guest` makes the guest's file system and
//! `link` its network. `boot` measures one boot, by `netperf` and `events`, whose words are not trusted, and `spin` ends
//! one that hangs. The report is that of `vmbell bench vmms`: each way is a column.

mod args;
mod boot;
mod events;
mod guest;
mod interface;
mod link;
mod netperf;
mod pattern;
mod rows;
mod spin;
mod tap;
mod way;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use tempfile::TempDir;

pub(super) use self::args::NetArgs;
use self::boot::{Booted, Place};
use self::events::Recording;
pub(super) use self::guest::DRIVERS;
use self::guest::Files;
use self::pattern::Pattern;
use self::way::Way;
use super::columns::args::CountExits;
use super::columns::{self, Begun, Failure, State};
use super::exit::{Exit, Usage};
use super::exports::Exports;
use super::interrupt;
use super::output::print;
use super::program::no_kvm;
use super::progress::Progress;
use super::vmm::version_of;
use vmbell_bench::{Observer, Phase, timing};
use vmbell_report::{Kind, Planned, Report, Status, Timing, Vmm};

/// How often a boot that hangs is repeated at most: not at all on hardware. Where instructions are counted, [`spin`] ends
/// one that hangs soon, and several in a row have hung.
const fn repeats(timing: Timing) -> u32 {
    match timing {
        Timing::Native => 0,
        Timing::Emulated => 2,
        Timing::Instructions => 8,
    }
}

/// A way that is to be measured, and what its boots gave.
#[derive(Debug)]
struct Column {
    way: Way,
    /// The VMM's program, or why it cannot be run here.
    program: Result<PathBuf, String>,
    version: Option<String>,
    boots: Vec<Booted>,
    failure: Option<Failure>,
    /// How many boots hung and were repeated, and what the last one did not do.
    hung: Option<(u32, String)>,
}

impl Column {
    const fn new(way: Way, program: Result<PathBuf, String>, version: Option<String>) -> Self {
        Self {
            way,
            program,
            version,
            boots: Vec::new(),
            failure: None,
            hung: None,
        }
    }
}

/// What `vmbell bench eoi --guest linux` takes behind `--`.
#[derive(Debug, Parser)]
#[command(name = "vmbell bench eoi --guest linux --")]
struct Options {
    #[command(flatten)]
    net: NetArgs,
}

/// Measures round trips without and with paravirtual EOI, with further options of `vmbell bench net`.
pub(super) fn pv_eoi(options: &[OsString]) -> Result<Exit> {
    let ways = Way::EOIS.map(OsString::from);
    let words = [OsString::new()].into_iter().chain(ways);
    let parsed = Options::try_parse_from(words.chain(options.iter().cloned()));
    run(&parsed.map_err(|error| Usage::new(error.to_string()))?.net)
}

/// Whether the way with this name takes a card.
pub(super) fn takes_card(name: &str) -> bool {
    let mut ways = Way::ALL.into_iter();
    ways.any(|way| way.is_assigned() && way.name() == name)
}

/// Measures the ways.
pub(super) fn run(args: &NetArgs) -> Result<Exit> {
    if args.list {
        return list(args);
    }
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    if let Some(reason) = no_kvm() {
        eprintln!("error: {reason}; `vmbell lab -- vmbell bench net` brings its own");
        return Ok(Exit::Skipped);
    }
    let files = Files::find(args)?;
    let mut columns = of(args, interrupted);
    if args.ways.is_empty() {
        // What the user did not name and what is not installed needs no word.
        columns.retain(|column| column.program.is_ok() || !column.way.is_qemu());
    }
    let exports = Exports::open(&args.columns.exports)?;
    let begun = Begun::now(timing::here().map_err(Usage::new)?);
    let unit = begun.time_unit(args.columns.time_unit)?;
    let patterns = args.patterns();
    let timing = begun.timing;
    let stopped = take(args, &patterns, &files, &mut columns, timing, interrupted)?;
    let report = report(begun, args, &columns, &patterns, stopped);
    columns::finish(&report, exports, unit, &args.columns)
}

/// The columns that were asked for.
fn of(args: &NetArgs, stop: &AtomicBool) -> Vec<Column> {
    let ways = match args.ways.is_empty() {
        true => Way::ALL
            .into_iter()
            .filter(|way| !way.is_special() && (args.card.is_some() || !way.is_assigned()))
            .collect(),
        false => args.ways.clone(),
    };
    let mut columns: Vec<Column> = Vec::new();
    for way in ways {
        if columns.iter().all(|column| column.way != way) {
            let program = way.program(args.card());
            let version = program.as_deref().ok();
            let version = version.and_then(|program| version_of(program, "--version", stop));
            columns.push(Column::new(way, program, version));
        }
    }
    columns
}

/// Boots each column `args.columns.runs` times, in turns, until `stop` is set; returns whether it was.
fn take(
    args: &NetArgs,
    patterns: &[Pattern],
    files: &Files,
    columns: &mut [Column],
    timing: Timing,
    stop: &AtomicBool,
) -> Result<bool> {
    let folder = TempDir::with_prefix("vmbell-net-").context("cannot make a temporary folder")?;
    let initrd = folder.path().join("initrd");
    let bytes = files
        .initrd()
        .context("cannot make the guest's file system")?;
    fs::write(&initrd, bytes).context("cannot write the guest's file system")?;
    args.columns.make_folder()?;
    if args.exits == CountExits::On {
        Recording::start().context("exits cannot be counted here")?;
    }
    let place = Place {
        args,
        patterns,
        files,
        initrd: &initrd,
        cmdline: &guest::cmdline(&args.append),
        counts: args.exits != CountExits::Off,
        repeats: repeats(timing),
        ends_spinning: timing == Timing::Instructions,
        stop,
    };
    let mut progress = Progress::new(args.columns.progress());
    let bootable = columns.iter().filter(|column| column.program.is_ok());
    progress.phase(
        Phase::Measure,
        u64::from(args.columns.runs) * bootable.count() as u64,
    );
    for run in 1..=args.columns.runs {
        for column in &mut *columns {
            let Ok(program) = column.program.clone() else {
                continue;
            };
            if column.failure.is_some() {
                continue;
            }
            let booted = boot(&place, column, &program, run)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let name = column.way.name();
            match booted {
                Ok(booted) => {
                    progress.step(name, None);
                    column.boots.push(booted);
                }
                Err(failure) => {
                    progress.lost(name, Status::Failed, &failure.reason);
                    column.failure = Some(failure);
                }
            }
        }
    }
    Ok(false)
}

/// Boots a guest. One that hangs is booted again, if the place has it so, and the report says it: QEMU's emulated CPU
/// delivers an interrupt twice now and then (docs/lab.md).
fn boot(
    place: &Place<'_>,
    column: &mut Column,
    program: &Path,
    run: u32,
) -> Result<Result<Booted, Failure>> {
    let mut name = run.to_string();
    for _ in 0..place.repeats {
        match place.boot(column.way, program, &name)? {
            Err(failure) if failure.hung && !place.stop.load(Ordering::Relaxed) => {
                let before = column.hung.as_ref().map_or(0, |(count, _)| *count);
                column.hung = Some((before + 1, failure.reason));
                name.push_str("-again");
            }
            booted => return Ok(booted),
        }
    }
    place.boot(column.way, program, &name)
}

fn report(
    begun: Begun,
    args: &NetArgs,
    columns: &[Column],
    patterns: &[Pattern],
    interrupted: bool,
) -> Report {
    let most = columns.iter().map(|column| column.boots.len()).max();
    let plan = Planned {
        runs: args.columns.runs,
        finished: u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX),
        warmup: 0,
        min_time: 0.0,
        ops: None,
    };
    let timing = begun.timing;
    let rows = rows::all(columns, patterns, timing);
    let vmms = columns.iter().map(vmm).collect();
    begun.report(plan, Kind::Net(vmms), rows, interrupted)
}

fn vmm(column: &Column) -> Vmm {
    let repeated = column.hung.as_ref().map(|(count, reason)| match count {
        1 => reason.clone(),
        _ => format!("{reason} (the last of {count})"),
    });
    columns::vmm(State {
        name: column.way.name(),
        program: &column.program,
        version: &column.version,
        boots: column.boots.len(),
        failure: column.failure.as_ref(),
        repeated: &repeated,
    })
}

/// `--list`.
fn list(args: &NetArgs) -> Result<Exit> {
    let mut text = "ways:\n".to_owned();
    for way in Way::ALL {
        let found = match way.program(args.card()) {
            Ok(program) => program.display().to_string(),
            Err(reason) => format!("not here: {reason}"),
        };
        text.push_str(&format!("  {:17} {}; {found}\n", way.name(), way.text()));
    }
    text.push_str("patterns:\n");
    for pattern in Pattern::ALL {
        text.push_str(&format!("  {:17} {}\n", pattern.name(), pattern.text()));
    }
    print(&text)?;
    Ok(Exit::Good)
}
