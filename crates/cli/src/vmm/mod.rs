//! `vmbell bench vmms`: runs one guest image in every VMM that there is, and compares what it measures from inside.
//!
//! `choose` says which VMMs, `launcher` knows them and their command lines, `turns` boots them through `crate::process`, `serial`
//! and `document` read what they print, which is not trusted, and `report` makes a report of the `rows`. The image is the
//! crate `vmbell-probe-image`.

mod alioth;
mod args;
mod choose;
mod document;
mod exits;
mod image;
mod launcher;
mod qemu;
mod report;
mod rows;
mod serial;
mod template;
mod turns;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub(super) use self::args::VmmArgs;
pub(super) use self::choose::version_of;
use self::choose::{chosen, column, is_missing, list, none_found};
use self::launcher::Launcher;
use self::report::report;
pub(super) use self::serial::{cleaned, last_words};
use self::turns::Column;
use super::columns::{self, Begun};
use super::exit::{Exit, Usage};
use super::exports::Exports;
use super::interrupt;
use vmbell_bench::timing;

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
    let mut columns: Vec<Column> = launchers
        .into_iter()
        .map(|launcher| column(launcher, args.accel, interrupted))
        .collect();
    if args.names.is_empty() && columns.iter().all(|column| column.program.is_err()) {
        eprint!("{}", none_found(&columns));
        return Ok(Exit::Skipped);
    }
    if args.names.is_empty() {
        // What the user did not name and what is not here needs no word.
        columns.retain(|column| column.program.is_ok() || !is_missing(column));
    }
    let exports = Exports::open(&args.columns.exports)?;
    let begun = Begun::now(timing::here().map_err(Usage::new)?);
    let unit = begun.time_unit(args.columns.time_unit)?;
    let stopped = turns::take(args, &mut columns, interrupted)?;
    let report = report(begun, args, &columns, stopped);
    columns::finish(&report, exports, unit, &args.columns)
}
