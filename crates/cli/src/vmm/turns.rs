//! Boots the VMMs in turns and keeps what each gave.
//!
//! One VMM runs at a time, on one thread. A VMM whose boot gave no results is not booted again, since it would give none again;
//! but one that hung is, once: under nested emulation a guest hangs now and then, and the report says that it happened.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::args::VmmArgs;
use super::document::Document;
use super::exits::{self, Counted};
use super::launcher::{Launcher, Setup};
use super::rows::is_emulated;
use super::serial;
use super::template::Places;
use crate::columns::Failure;
use crate::columns::args::CountExits;
use crate::process::{self, End, Ended, Task};
use crate::progress::Progress;
use vmbell_bench::{Observer, Phase};
use vmbell_report::Status;

/// The most operations of a batch whose exits are counted: each is as good as the next, and all are recorded.
const COUNTED_OPS: u32 = 20;
/// The most bytes that are kept of what a VMM prints.
pub(super) const MOST_OUTPUT: usize = 1 << 20;
/// The size of the disk.
const DISK: u64 = 1 << 20;

/// A VMM that is to be booted, and what its boots gave.
#[derive(Debug)]
pub(super) struct Column {
    /// The VMM.
    pub(super) launcher: Launcher,
    /// Its program, or why it cannot be booted here.
    pub(super) program: Result<PathBuf, String>,
    /// What its program says about its version.
    pub(super) version: Option<String>,
    /// `kvm` or `tcg`.
    pub(super) accel: &'static str,
    /// The results of each boot.
    pub(super) boots: Vec<Document>,
    /// The boot that gave none.
    pub(super) failure: Option<Failure>,
    /// Why a boot before that was repeated.
    pub(super) repeated: Option<String>,
    /// What was counted of its exits.
    pub(super) exits: Exits,
}

/// The exits of a VMM.
#[derive(Debug)]
pub(super) enum Exits {
    /// They are not asked for, or there is nothing to count.
    Off,
    /// They could not be counted, for this reason.
    Uncounted(String),
    /// They were counted.
    Counted(Counted),
}

/// Boots each column `args.columns.runs` times, until `stop` is set; returns whether it was.
pub(super) fn take(args: &VmmArgs, columns: &mut [Column], stop: &AtomicBool) -> Result<bool> {
    let folder = TempDir::with_prefix("vmbell-vmm-").context("cannot make a temporary folder")?;
    let image = folder.path().join("probe.elf");
    fs::write(&image, vmbell_probe_image::ELF).context("cannot write the image")?;
    args.columns.make_folder()?;
    let obstacle = match args.exits {
        CountExits::Off => None,
        CountExits::Auto | CountExits::On => exits::obstacle(),
    };
    if let (CountExits::On, Some(reason)) = (args.exits, &obstacle) {
        bail!("exits cannot be counted here: {reason}");
    }
    let disk = folder.path().join("disk");
    let mut progress = Progress::new(args.columns.progress());
    let bootable = columns
        .iter()
        .filter(|column| column.program.is_ok())
        .count();
    progress.phase(
        Phase::Measure,
        u64::from(args.columns.runs) * bootable as u64,
    );
    let place = Place {
        args,
        image: &image,
        disk: &disk,
        stop,
    };
    let timed = cmdline(args, args.ops, "verbose");
    for run in 1..=args.columns.runs {
        for column in &mut *columns {
            if column.failure.is_some() || column.program.is_err() {
                continue;
            }
            let mut booted = place.boot(column, &timed, &run.to_string())?;
            let hung = |failure: &&Failure| failure.hung && !stop.load(Ordering::Relaxed);
            let first = booted
                .as_ref()
                .err()
                .filter(hung)
                .filter(|_| column.repeated.is_none());
            if let Some(failure) = first {
                column.repeated = Some(failure.reason.clone());
                booted = place.boot(column, &timed, &format!("{run}-again"))?;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let name = column.launcher.name();
            match booted {
                Ok(document) => {
                    progress.step(name, None);
                    column.boots.push(document);
                }
                Err(failure) => {
                    progress.lost(name, Status::Failed, &failure.reason);
                    column.failure = Some(failure);
                }
            }
        }
    }
    if args.exits != CountExits::Off {
        // After all others, since a host that records its events is slower.
        progress.phase(Phase::Measure, bootable as u64);
        for column in &mut *columns {
            column.exits = place.count(column, obstacle.as_deref())?;
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            progress.step(column.launcher.name(), None);
        }
    }
    Ok(false)
}

/// What all boots have.
struct Place<'a> {
    args: &'a VmmArgs,
    image: &'a Path,
    disk: &'a Path,
    stop: &'a AtomicBool,
}

impl Place<'_> {
    /// Boots a VMM; what it prints is kept under `name` if that was asked for.
    fn boot(
        &self,
        column: &Column,
        cmdline: &str,
        name: &str,
    ) -> Result<Result<Document, Failure>> {
        let program = column.program.as_deref().unwrap_or(Path::new(""));
        // Each boot has a disk of its own: what a VMM wrote or locked is gone.
        empty(self.disk).context("cannot make a disk")?;
        let setup = Setup {
            places: Places {
                image: self.image,
                cmdline,
                disk: self.disk,
            },
            devices: &self.args.device,
            cpus: self.args.smp,
            accel: column.accel,
        };
        let ended = process::run(&Task {
            words: &column.launcher.words(program, &setup),
            limit: self.args.time_limit,
            most: MOST_OUTPUT,
            stop: self.stop,
            is_complete: &serial::is_complete,
        });
        if let (Some(keep), Ok(ended)) = (&self.args.columns.keep, &ended) {
            kept(keep, &format!("{}-{name}", column.launcher.name()), ended)?;
        }
        Ok(outcome(ended, self.args.time_limit))
    }

    /// Counts the exits of a VMM that gave results, unless there is an obstacle.
    fn count(&self, column: &Column, obstacle: Option<&str>) -> Result<Exits> {
        if column.boots.is_empty() || column.failure.is_some() {
            return Ok(Exits::Off);
        }
        if is_emulated(column) {
            let reason = "its CPU is emulated, and has no exits";
            return Ok(Exits::Uncounted(reason.to_owned()));
        }
        if let Some(obstacle) = obstacle {
            return Ok(Exits::Uncounted(obstacle.to_owned()));
        }
        let cmdline = cmdline(self.args, self.args.ops.min(COUNTED_OPS), exits::WORD);
        let mut failed = None;
        let counted = exits::count(|| match self.boot(column, &cmdline, "exits") {
            Ok(booted) => booted.map_err(|failure| failure.reason),
            Err(error) => {
                failed = Some(error);
                Err(String::new())
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(counted.map_or_else(Exits::Uncounted, Exits::Counted))
    }
}

/// The command line of the image.
fn cmdline(args: &VmmArgs, ops: u32, word: &str) -> String {
    let mut words = format!("ops={ops} batches={} {word}", args.batches);
    if !args.only.is_empty() {
        words.push_str(" only=");
        words.push_str(&args.only.join(","));
    }
    words
}

fn empty(disk: &Path) -> io::Result<()> {
    match fs::remove_file(disk) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::File::create_new(disk)?.set_len(DISK)
}

fn kept(folder: &Path, name: &str, ended: &Ended) -> Result<()> {
    for (suffix, bytes) in [("log", &ended.output), ("err", &ended.errors)] {
        let path = folder.join(format!("{name}.{suffix}"));
        let written = fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The results of a boot. If they are whole, it does not matter how the VMM ended.
fn outcome(ended: io::Result<Ended>, limit: Duration) -> Result<Document, Failure> {
    let ended = ended.map_err(|error| Failure {
        reason: format!("it cannot be run: {error}"),
        last: None,
        hung: false,
    })?;
    serial::read(&ended.output).map_err(|error| {
        let hung = ended.end == End::TimeLimit;
        let how = match ended.end {
            End::Exited(status) => format!("it ended with {status}"),
            End::Lingered | End::Stopped => "it was ended".to_owned(),
            End::TimeLimit => format!("it did not end within {limit:?}"),
            End::TooMuch => "it printed more than 1 MiB and was ended".to_owned(),
        };
        let last = serial::last_words(&ended.errors);
        Failure {
            reason: format!("{error}; {how}"),
            last: last.or_else(|| serial::last_words(&ended.output)),
            hung,
        }
    })
}
