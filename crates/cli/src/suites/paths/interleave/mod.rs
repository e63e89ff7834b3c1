//! `vmbell bench --interleave`: another vmbell and this one measure in turns, and their reports are compared.
//!
//! The drift of a host is larger than most changes. Two sides that take short turns in random order drift together, so
//! the comparison pairs the reports of a turn (docs/comparing.md). [`forward`] has the options that both sides get,
//! `side` runs one of them. The calling thread waits for each child.

pub(crate) mod args;
mod side;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::Command;

use self::side::{InterleavedSide, SideError};
use super::args::PathsArgs;
use crate::args::forward;
use crate::compare::{self, BenchComparison};
use crate::exit::{Exit, Usage};
use crate::interrupt;
use crate::output::progress::BenchProgress;
use crate::suites::measured;
use vmbell_bench::{BenchPhase, CommandLimit, Observer, timing};
use vmbell_report::compare::{CompareOptions, Pairing, RowKey, can_show_a_change};
use vmbell_report::{EXPORTERS, Export, Report, Timing};
use vmbell_statistics::Random;

/// The runs of each turn.
const RUNS: &str = "--runs=3";

/// The options of `bench` that control the comparison and its output. The export options are not passed on either.
const OURS: [&str; 13] = [
    "baseline",
    "interleave",
    "turns",
    "keep-turns",
    "fail-above",
    "allow-missing",
    "style",
    "sort",
    "time-unit",
    "no-warnings",
    "quiet",
    "verbose",
    "seed",
];

/// The reports of both sides; reports with the same index are from the same turn.
#[derive(Debug, Default)]
struct TurnReports {
    old: Vec<Report>,
    new: Vec<Report>,
}

/// Measures in turns with `other`, compares and shows the result. Both sides get the arguments of this process, which
/// `program` parses.
pub(crate) fn run(args: &PathsArgs, other: &str, program: &Command) -> Result<Exit> {
    if args.measure.exports.given().next().is_some() {
        return Err(Usage::new(
            "with --interleave there are two reports per turn: keep them with --keep-turns FOLDER, and see `vmbell compare --turns`",
        )
        .into());
    }
    if args.measure.time_unit.is_some() {
        return Err(Usage::new(
            "--interleave shows ratios, and times in fitting units: leave --time-unit out",
        )
        .into());
    }
    check_fail_above(args)?;
    let sides = sides(args, other, program)?;
    if let Some(folder) = &args.before.keep_turns {
        prepare(folder)?;
    }
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    let seed = args.measure.seed(Timing::Native);
    let taken = take(args, &sides, seed, &CommandLimit::new(None, interrupted))?;
    let interrupted = interrupted.load(Ordering::Relaxed);
    if taken.new.is_empty() {
        return Ok(Exit::Interrupted);
    }
    let is_wanted = |_: &RowKey| !args.before.allow_missing;
    let comparison = BenchComparison {
        style: args.measure.style,
        verbose: args.measure.verbose,
        fail_above: args.before.fail_above,
        stdout_is_taken: false,
    };
    let exit = comparison.run(&taken.old, &taken.new, &options(seed), is_wanted)?;
    // The new side's own failures also decide, as in a bench that is not compared: a row that failed, no measured row,
    // or a time limit.
    let mut own = taken.new.iter().map(measured::exit);
    let own = own.find(|exit| *exit != Exit::Good);
    Ok(match (interrupted, own) {
        (true, _) => Exit::Interrupted,
        (false, Some(own)) => own,
        (false, None) => exit,
    })
}

/// Fails if this many turns could show no change of times.
fn check_fail_above(args: &PathsArgs) -> Result<()> {
    let turns = args.before.turns;
    let are_enough = |turns: u32| {
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        can_show_a_change(turns, turns, Pairing::Turns)
    };
    let timing = timing::here().map_err(Usage::new)?;
    if args.before.fail_above.is_none() || timing == Timing::Instructions || are_enough(turns) {
        return Ok(());
    }
    let enough = (turns..).find(|more| are_enough(*more));
    let text = format!(
        "not enough data for --fail-above: times need --turns {} or more",
        enough.unwrap_or(u32::MAX)
    );
    Err(Usage::new(text).into())
}

fn options(seed: u64) -> CompareOptions {
    CompareOptions {
        pairing: Pairing::Turns,
        seed,
        ..CompareOptions::default()
    }
}

/// Makes the folder for the reports. A folder with reports of other turns is refused, because `compare --turns` would
/// take all of them for one measurement.
fn prepare(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ["old-", "new-"].iter().any(|side| name.starts_with(side)) && name.ends_with(".json") {
            let text = format!(
                "{} has reports of other turns, such as {name}: give another folder to --keep-turns",
                folder.display()
            );
            return Err(Usage::new(text).into());
        }
    }
    Ok(())
}

/// Both sides, the old one first.
fn sides(args: &PathsArgs, other: &str, program: &Command) -> Result<[InterleavedSide; 2]> {
    let other =
        shell_words::split(other).map_err(|error| Usage::new(format!("--interleave: {error}")))?;
    if other.is_empty() {
        return Err(Usage::new("--interleave has no command").into());
    }
    let matches = program.clone().try_get_matches()?;
    let (_, command, matches) = forward::innermost(program.clone(), matches);
    let exports = EXPORTERS.map(|exporter| exporter.option);
    let ours = OURS.into_iter().chain(exports);
    let mut options = forward::words(&command, &matches, &ours.collect::<Vec<_>>());
    if args.runs.is_none() {
        options.insert(0, RUNS.into());
    }
    let this = env::current_exe().context("cannot find this program")?;
    let side = |name, vmbell| InterleavedSide::new(name, vmbell, &options, args.measure.timeout());
    Ok([
        side("old", other.into_iter().map(OsString::from).collect()),
        side("new", vec![this.into()]),
    ])
}

/// Takes the turns, until all are done or a signal arrives.
fn take(
    args: &PathsArgs,
    sides: &[InterleavedSide; 2],
    seed: u64,
    stop: &CommandLimit,
) -> Result<TurnReports> {
    let turns = args.before.turns;
    let mut progress = BenchProgress::new(args.measure.progress(), 0);
    progress.phase(BenchPhase::Measure, u64::from(turns) * 2);
    let mut random = Random::new(seed);
    let mut taken = TurnReports::default();
    for turn in 1..=turns {
        let first = random.below(2);
        let mut reports = [None, None];
        for index in [first, 1 - first] {
            let side = &sides[index];
            match side.measure(stop) {
                Ok(report) => reports[index] = Some(report),
                Err(SideError::Stopped) => return Ok(taken),
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("turn {turn} of {turns}, the {} side", side.name)
                    });
                }
            }
            progress.step(&format!("turn {turn}, {}", side.name), None);
        }
        let [Some(old), Some(new)] = reports else {
            continue;
        };
        if let Some(folder) = &args.before.keep_turns {
            keep(folder, turn, [(&sides[0], &old), (&sides[1], &new)])?;
        }
        taken.old.push(old);
        taken.new.push(new);
        if turn == 1 {
            // Errors of the comparison are found before the other turns take their minutes.
            compare::check(&taken.old, &taken.new, &options(seed))?;
        }
    }
    Ok(taken)
}

fn keep(folder: &Path, turn: u32, reports: [(&InterleavedSide, &Report); 2]) -> Result<()> {
    for (side, report) in reports {
        let path = folder.join(format!("{}-{turn:03}.json", side.name));
        Export::open(&path)?.finish(&vmbell_report::json(report))?;
    }
    Ok(())
}
