//! Boots the columns in turns (A B C, A B C), so that what changes on the host changes for all.
//!
//! One VMM runs at a time, on the calling thread. A column whose boot gave no results is not booted again, since it would
//! give none again; but a boot that hung is repeated, and the report says so: under nested emulation a guest hangs now and
//! then.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::args::ColumnArgs;
use super::{Boot, Column, Failure, Way};
use crate::progress::Progress;
use vmbell_bench::{Observer, Phase};
use vmbell_report::Status;

/// How columns are booted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns<'a> {
    /// How often, and whether progress is shown.
    pub(crate) args: &'a ColumnArgs,
    /// How often a boot that hangs is repeated at most.
    pub(crate) repeats: u32,
    /// Set when the command is to end.
    pub(crate) stop: &'a AtomicBool,
}

impl Turns<'_> {
    /// Boots each column as often as the arguments say, by `boot`, which gets the way, its program and the name of the
    /// run; returns whether it was stopped.
    pub(crate) fn take<W: Way>(
        self,
        columns: &mut [Column<W>],
        mut boot: impl FnMut(&W, &Path, &str) -> Result<Result<Boot, Failure>>,
    ) -> Result<bool> {
        self.args.make_folder()?;
        let mut progress = Progress::new(self.args.measure.progress());
        let bootable = columns.iter().filter(|column| column.program.is_ok());
        let boots = u64::from(self.args.runs) * bootable.count() as u64;
        progress.phase(Phase::Measure, boots);
        for run in 1..=self.args.runs {
            for column in &mut *columns {
                let Some(program) = column.bootable().map(Path::to_path_buf) else {
                    continue;
                };
                let booted = self.boot(column, run, |way, name| boot(way, &program, name))?;
                if self.is_stopped() {
                    return Ok(true);
                }
                let name = column.way.name();
                match booted {
                    Ok(boot) => {
                        progress.step(name, None);
                        column.boots.push(boot);
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

    /// Boots a column, and again if it hangs.
    fn boot<W: Way>(
        self,
        column: &mut Column<W>,
        run: u32,
        mut boot: impl FnMut(&W, &str) -> Result<Result<Boot, Failure>>,
    ) -> Result<Result<Boot, Failure>> {
        let mut name = run.to_string();
        for _ in 0..self.repeats {
            match boot(&column.way, &name)? {
                Err(failure) if failure.hung && !self.is_stopped() => {
                    let before = column.hung.as_ref().map_or(0, |(count, _)| *count);
                    column.hung = Some((before + 1, failure.reason));
                    name.push_str("-again");
                }
                booted => return Ok(booted),
            }
        }
        boot(&column.way, &name)
    }

    fn is_stopped(self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Does something with each column that gave results; returns whether it was stopped.
pub(crate) fn each<W: Way>(
    turns: Turns<'_>,
    columns: &mut [Column<W>],
    mut with: impl FnMut(&mut Column<W>, &Path) -> Result<()>,
) -> Result<bool> {
    let mut progress = Progress::new(turns.args.measure.progress());
    let measured = |column: &&mut Column<W>| !column.boots.is_empty();
    let columns: Vec<&mut Column<W>> = columns.iter_mut().filter(measured).collect();
    progress.phase(Phase::Measure, columns.len() as u64);
    for column in columns {
        if let Some(program) = column.bootable().map(Path::to_path_buf) {
            with(column, &program)?;
        }
        if turns.is_stopped() {
            return Ok(true);
        }
        progress.step(column.way.name(), None);
    }
    Ok(false)
}
