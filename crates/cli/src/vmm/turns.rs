//! Boots the VMMs in turns and keeps what each gave.
//!
//! One VMM runs at a time, on one thread. A VMM whose boot gave no results is not booted again: it may have taken its whole
//! time limit, and would again.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::args::VmmArgs;
use super::document::Document;
use super::launcher::{Launcher, Setup};
use super::process::{self, End, Ended, Task};
use super::serial;
use super::template::Places;
use crate::progress::Progress;
use vmbell_bench::{Observer, Phase};
use vmbell_report::Status;

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
}

/// A boot that gave no results.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub(super) reason: String,
    /// What was printed last.
    pub(super) last: Option<String>,
}

/// Boots each column `args.runs` times, until `stop` is set; returns whether it was.
pub(super) fn take(args: &VmmArgs, columns: &mut [Column], stop: &AtomicBool) -> Result<bool> {
    let folder = TempDir::with_prefix("vmbell-vmm-").context("cannot make a temporary folder")?;
    let image = folder.path().join("probe.elf");
    fs::write(&image, vmbell_probe_image::ELF).context("cannot write the image")?;
    if let Some(keep) = &args.keep {
        fs::create_dir_all(keep)
            .with_context(|| format!("cannot make the folder {}", keep.display()))?;
    }
    let cmdline = cmdline(args);
    let disk = folder.path().join("disk");
    let mut progress = Progress::new(args.style.progress() && !args.quiet);
    let bootable = columns
        .iter()
        .filter(|column| column.program.is_ok())
        .count();
    progress.phase(Phase::Measure, u64::from(args.runs) * bootable as u64);
    for run in 1..=args.runs {
        for column in &mut *columns {
            if column.failure.is_some() {
                continue;
            }
            let Ok(program) = &column.program else {
                continue;
            };
            // Each boot has a disk of its own: what a VMM wrote or locked is gone.
            empty(&disk).context("cannot make a disk")?;
            let setup = Setup {
                places: Places {
                    image: &image,
                    cmdline: &cmdline,
                    disk: &disk,
                },
                devices: &args.device,
                accel: column.accel,
            };
            let words = column.launcher.words(program, &setup);
            let name = column.launcher.name().to_owned();
            let ended = boot(&words, args.time_limit, stop);
            if let (Some(keep), Ok(ended)) = (&args.keep, &ended) {
                kept(keep, &format!("{name}-{run}"), ended)?;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            match outcome(ended, args.time_limit) {
                Ok(document) => {
                    column.boots.push(document);
                    progress.step(&name, None);
                }
                Err(failure) => {
                    progress.lost(&name, Status::Failed, &failure.reason);
                    column.failure = Some(failure);
                }
            }
        }
    }
    Ok(false)
}

/// The command line of the image.
fn cmdline(args: &VmmArgs) -> String {
    let mut words = format!("ops={} batches={} verbose", args.ops, args.batches);
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

fn boot(words: &[OsString], limit: Duration, stop: &AtomicBool) -> io::Result<Ended> {
    process::run(&Task {
        words,
        limit,
        stop,
        is_complete: serial::is_complete,
    })
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
    })?;
    serial::read(&ended.output).map_err(|error| {
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
        }
    })
}
