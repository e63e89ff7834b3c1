//! `vmbell bench vmms`: runs one guest image in every VMM that there is, and compares what it measures from inside.
//!
//! `choose` says which VMMs, `launcher` knows them and their command lines, `boot` boots one, and `serial` and `document`
//! read what it prints, which is not trusted. Turns, rows and the report are those of `crate::columns`. The image is the
//! crate `vmbell-probe-image`.

mod alioth;
mod args;
mod boot;
mod choose;
mod document;
mod exits;
mod image;
mod launcher;
mod qemu;
mod serial;
mod template;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub(super) use self::args::VmmArgs;
use self::boot::Place;
use self::choose::{chosen, is_missing, list, none_found};
use self::launcher::{Launcher, Vmm};
pub(super) use self::qemu::{BARE, PROGRAM as QEMU};
use super::columns::args::CountExits;
use super::columns::{self, Column, Plan, Turns};
use super::exit::Exit;
use super::exports::Exports;
use super::interrupt;
use super::measured::Begun;
use vmbell_report::Kind;

/// The path of alioth's program, or why there is none.
pub(super) fn alioth_on_path() -> Result<PathBuf, String> {
    Launcher::Alioth.find()
}

/// Runs the image in the VMMs.
pub(super) fn run(args: &VmmArgs) -> Result<Exit> {
    if let Some(command) = &args.command {
        return image::run(command);
    }
    let launchers = chosen(args)?;
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    if args.list {
        return list(&launchers, interrupted);
    }
    if vmbell_probe_image::ELF.is_empty() {
        bail!("this vmbell has no image: it is built on x86-64 Linux only");
    }
    let mut columns: Vec<Column<Vmm>> = launchers
        .into_iter()
        .map(|launcher| Column::find(Vmm::new(launcher, args.accel), interrupted))
        .collect();
    if args.names.is_empty() && columns.iter().all(|column| column.program.is_err()) {
        eprint!("{}", none_found(&columns));
        return Ok(Exit::Skipped);
    }
    if args.names.is_empty() {
        // What the user did not name and what is not here needs no word.
        columns.retain(|column| column.program.is_ok() || !is_missing(column));
    }
    let exports = Exports::open(&args.columns.measure.exports)?;
    let begun = Begun::now()?;
    let delivery = args.columns.delivery(&begun)?;
    let turns = Turns {
        args: &args.columns,
        repeats: 1,
        stop: interrupted,
    };
    let stopped = take(args, &mut columns, turns, &begun)?;
    let plan = Plan {
        batches: args.batches,
        ops: Some(args.ops.into()),
    };
    let (args, what) = (&args.columns, (plan, &columns[..]));
    let report = columns::report(begun, args, what, Kind::Vmms, stopped);
    columns::finish(&report, exports, delivery)
}

/// Boots the VMMs, then once more to count exits; returns whether they were stopped.
fn take(
    args: &VmmArgs,
    columns: &mut [Column<Vmm>],
    turns: Turns<'_>,
    begun: &Begun,
) -> Result<bool> {
    let obstacle = match args.exits {
        CountExits::Off => None,
        CountExits::Auto | CountExits::On => exits::obstacle(),
    };
    if let (CountExits::On, Some(reason)) = (args.exits, &obstacle) {
        bail!("exits cannot be counted here: {reason}");
    }
    let place = Place::new(args, turns.stop, begun)?;
    if turns.take(columns, |vmm, program, run| place.boot(vmm, program, run))? {
        return Ok(true);
    }
    if args.exits == CountExits::Off {
        return Ok(false);
    }
    // After all others, since a host that records its events is slower.
    columns::each(turns, columns, |column, program| {
        column.counted = Some(match &obstacle {
            _ if column.is_emulated() => Err("its CPU is emulated, and has no exits".to_owned()),
            Some(obstacle) => Err(obstacle.clone()),
            None => place.count(&column.way, program)?,
        });
        Ok(())
    })
}
