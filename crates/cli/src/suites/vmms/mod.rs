//! `vmbell bench vmms`: runs one guest image in every VMM on this host, and compares what it measures from inside.
//!
//! `choose` selects the VMMs, `launcher` has their command lines, `boot` boots one. `serial` and `document` parse its
//! output, which is not trusted. `linux` makes a row from a boot of Linux. Turns, rows and the report are in
//! `super::boots`. The image is the crate `vmbell-probe-image`.

mod args;
mod boot;
mod choose;
mod config;
mod document;
mod exits;
mod launcher;
mod libkrun;
mod linux;
mod serial;
mod template;

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub(crate) use self::args::{DEVICES, LAB_KERNEL, VmmDeviceName, VmmsArgs, check_rows, row};
use self::args::{ProbeImageFormat, VmmCommand};
use self::boot::VmmBootContext;
pub(crate) use self::choose::program_in_lab;
use self::choose::{chosen, is_missing, none_found};
pub(crate) use self::launcher::{BARE, CARRIED, QEMU};
use self::launcher::{VmmCandidate, VmmLauncher, known};
use super::boots::args::CountExits;
use super::boots::{BootColumn, BootPlan, BootsRun};
use super::measure_args::limit_of_signals;
use crate::exit::{Exit, Usage};
use crate::output::print_bytes;
use vmbell_report::Kind;

const EMULATED: &str = "its CPU is emulated and has no exits";
const NOT_ASKED: &str = "--exits off";
const NO_IMAGE: &str = "this vmbell has no image: it is built on x86-64 Linux only";

/// Runs the image in the VMMs.
pub(crate) fn run(args: &VmmsArgs) -> Result<Exit> {
    match &args.command {
        Some(VmmCommand::Image { output, format }) => return write_image(output, *format),
        Some(VmmCommand::BootByLibkrun(args)) => {
            libkrun::boot(args)?;
            return Ok(Exit::Good);
        }
        None => {}
    }
    let launchers = checked(args)?;
    let limit = args.columns.measure.limit_of_boots()?;
    if vmbell_probe_image::ELF.is_empty() {
        bail!(NO_IMAGE);
    }
    let mut columns: Vec<BootColumn<VmmCandidate>> = launchers
        .into_iter()
        .map(|launcher| BootColumn::find(VmmCandidate::new(launcher, args.accel), &limit))
        .collect();
    if args.names.is_empty() && columns.iter().all(|column| column.program.is_err()) {
        eprint!("{}", none_found(&columns));
        return Ok(Exit::Skipped);
    }
    if args.names.is_empty() {
        // A VMM is left out silently if it is neither named nor installed.
        columns.retain(|column| column.program.is_ok() || !is_missing(column));
    }
    if let Some(kernel) = args.linux.as_ref().filter(|kernel| !kernel.is_file()) {
        let message = match kernel.as_os_str() == LAB_KERNEL {
            true => "--linux: outside the lab, it needs a kernel: --linux=FILE".to_owned(),
            false => format!("--linux: there is no file {}", kernel.display()),
        };
        return Err(Usage::new(message).into());
    }
    let run = BootsRun::begin(&args.columns, &limit)?;
    measure(args, &run, &mut columns)?;
    let plan = BootPlan {
        batches: args.batches,
        ops: Some(args.ops.into()),
    };
    run.finish(plan, &columns, |vmms| Kind::Vmms { vmms })
}

/// Prints the known VMMs, each with its program and version or why it was not found.
pub(crate) fn list() -> Result<Exit> {
    choose::list(&known(), &limit_of_signals()?)
}

/// Fails if the arguments name an unknown VMM or row.
pub(crate) fn check(args: &VmmsArgs) -> Result<()> {
    match args.command {
        Some(_) => Ok(()),
        None => checked(args).map(drop),
    }
}

/// The VMMs that the arguments name; also checks the rows.
fn checked(args: &VmmsArgs) -> Result<Vec<VmmLauncher>> {
    let launchers = chosen(args)?;
    args.check_rows().map_err(Usage::new)?;
    Ok(launchers)
}

/// `vmbell bench vmms image`.
fn write_image(output: &Path, format: ProbeImageFormat) -> Result<Exit> {
    let image: Cow<'_, [u8]> = match format {
        _ if vmbell_probe_image::ELF.is_empty() => bail!(NO_IMAGE),
        ProbeImageFormat::Elf => vmbell_probe_image::ELF.into(),
        ProbeImageFormat::Bzimage => vmbell_probe_image::bzimage().into(),
    };
    if output == Path::new("-") {
        print_bytes(&image)?;
    } else {
        fs::write(output, &image)
            .with_context(|| format!("cannot write the image to '{}'", output.display()))?;
    }
    Ok(Exit::Good)
}

/// How often a boot that hangs is repeated. A guest that hung under emulated SVM most likely does not hang again.
const REPEATS: u32 = 1;

/// Boots the VMMs, then once more to count exits.
fn measure(
    args: &VmmsArgs,
    run: &BootsRun<'_>,
    columns: &mut [BootColumn<VmmCandidate>],
) -> Result<()> {
    let exits = args.columns.exits;
    let obstacle = match exits {
        CountExits::Off => None,
        CountExits::Auto | CountExits::On => exits::obstacle(),
    };
    if let (CountExits::On, Some(reason)) = (exits, &obstacle) {
        bail!("exits cannot be counted here: {reason}");
    }
    let place = VmmBootContext::new(args, run)?;
    run.take(columns, REPEATS, |vmm, program, name| {
        place.boot(vmm, program, name)
    })?;
    if exits != CountExits::Off {
        // Last, because recording events slows the host down.
        run.each(columns, |column, program| {
            column.counted = Some(match &obstacle {
                _ if column.is_emulated() => Err(EMULATED.to_owned()),
                Some(obstacle) => Err(obstacle.clone()),
                None => match place.count(&column.way, program)? {
                    Err(_) if run.limit.stop().is_none() => place.count(&column.way, program)?,
                    counted => counted,
                },
            });
            Ok(())
        })?;
    }
    let Some(kernel) = &args.linux else {
        return Ok(());
    };
    run.each(columns, |column, program| {
        let obstacle = match column.is_emulated() {
            _ if exits == CountExits::Off => Some(NOT_ASKED),
            true => Some(EMULATED),
            false => obstacle.as_deref(),
        };
        let booted = run.repeat(column, linux::ROW.to_owned(), REPEATS, |vmm, name| {
            place.linux(kernel, vmm, program, name, obstacle)
        })?;
        let row = booted.unwrap_or_else(linux::hung);
        // There is one row for the boots of Linux, so it is kept with the first boot of the image.
        column.boots[0].rows.push(row);
        Ok(())
    })
}
