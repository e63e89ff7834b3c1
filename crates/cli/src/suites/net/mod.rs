//! `vmbell bench net`: measures Linux's network driver in a guest with netperf, over each path that a VMM can serve it
//! by.
//!
//! `way` defines the VMMs and their devices, `pattern` what netperf does, `guest` makes the guest's initrd and `link`
//! its network. `boot` measures one boot with `netperf` and `events`; output of programs is checked. Turns, rows and
//! the report are in `super::boots`.

mod args;
mod boot;
mod events;
mod guest;
mod interface;
mod link;
mod netperf;
mod pattern;
mod tap;
mod way;

use std::fs;

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use tempfile::TempDir;

pub(crate) use self::args::NetSuiteArgs;
use self::boot::NetBootContext;
use self::events::NetEvents;
pub(crate) use self::guest::DRIVERS;
use self::guest::NetFiles;
use self::pattern::NetperfPattern;
pub(crate) use self::tap::try_tap;
use self::way::{NetCandidate, NetWay};
use super::boots::args::CountExits;
use super::boots::{BootColumn, BootPlan, BootWay, BootsRun};
use crate::args::values::value;
use crate::exit::Exit;
use crate::output::print;
use crate::process::program::no_kvm;
use vmbell_bench::CommandLimit;
use vmbell_report::{Kind, Timing};

/// How often a boot that hangs is repeated: never on hardware. With instructions as the clock, a hanging guest is ended
/// soon, and several in a row may hang.
const fn repeats(timing: Timing) -> u32 {
    match timing {
        Timing::Native => 0,
        Timing::Emulated => 2,
        Timing::Instructions => 8,
    }
}

/// Measures the requested VMMs and paths.
pub(crate) fn run(args: &NetSuiteArgs) -> Result<Exit> {
    let limit = args.columns.measure.limit_of_boots()?;
    if let Some(reason) = no_kvm() {
        eprintln!("error: {reason}; run `vmbell lab -- vmbell bench net`, which has its own KVM");
        return Ok(Exit::Skipped);
    }
    let files = NetFiles::find(args)?;
    let mut columns = of(args, &limit);
    if args.ways.is_empty() {
        // QEMU is left out silently if it is neither named nor installed.
        columns.retain(|column| column.program.is_ok() || !column.way.way.is_qemu());
    }
    let run = BootsRun::begin(&args.columns, &limit)?;
    measure(args, &files, &run, &mut columns)?;
    // The number of operations depends on the pattern.
    let plan = BootPlan {
        batches: 1,
        ops: None,
    };
    run.finish(plan, &columns, |vmms| Kind::Net { vmms })
}

/// The requested columns.
fn of(args: &NetSuiteArgs, stop: &CommandLimit) -> Vec<BootColumn<NetCandidate>> {
    let ways = match args.ways.is_empty() {
        true => NetWay::value_variants()
            .iter()
            .filter(|way| !way.is_special() && (args.card.is_some() || !way.is_assigned()))
            .copied()
            .collect(),
        false => args.ways.clone(),
    };
    let mut columns: Vec<BootColumn<NetCandidate>> = Vec::new();
    for way in ways {
        if columns.iter().all(|column| column.way.way != way) {
            columns.push(BootColumn::find(NetCandidate::new(way, args.card()), stop));
        }
    }
    columns
}

/// Boots the columns in turns.
fn measure(
    args: &NetSuiteArgs,
    files: &NetFiles,
    run: &BootsRun<'_>,
    columns: &mut [BootColumn<NetCandidate>],
) -> Result<()> {
    let folder = TempDir::with_prefix("vmbell-net-").context("cannot make a temporary folder")?;
    let initrd = folder.path().join("initrd");
    let bytes = files
        .initrd()
        .context("cannot make the guest's file system")?;
    fs::write(&initrd, bytes).context("cannot write the guest's file system")?;
    if args.columns.exits == CountExits::On {
        NetEvents::record(std::process::id()).context("exits cannot be counted here")?;
    }
    let place = NetBootContext {
        args,
        run,
        patterns: &args.patterns(),
        files,
        initrd: &initrd,
        cmdline: &guest::cmdline(&args.append),
    };
    run.take(
        columns,
        repeats(run.begun.timing),
        |candidate, program, name| place.boot(candidate.way, program, name),
    )
}

/// Prints the names of `vmbell list net`, each with its program or what is missing, and the patterns.
pub(crate) fn list() -> Result<Exit> {
    let line = |value: PossibleValue, more: &str| {
        let text = value.get_help().map(ToString::to_string);
        format!(
            "  {:17} {}{more}\n",
            value.get_name(),
            text.unwrap_or_default()
        )
    };
    let mut text = "ways:\n".to_owned();
    for way in NetWay::value_variants() {
        let found = match NetCandidate::new(*way, None).program() {
            Ok(program) => format!("; {}", program.display()),
            Err(reason) => format!("; not here: {reason}"),
        };
        text.push_str(&line(value(way), &found));
    }
    text.push_str("patterns:\n");
    for pattern in NetperfPattern::value_variants() {
        text.push_str(&line(value(pattern), ""));
    }
    print(&text)?;
    Ok(Exit::Good)
}
