//! Boots the columns in turns and in random order, so that changes on the host affect all of them; then makes the
//! report and shows it.
//!
//! One VMM runs at a time, on the calling thread. A column whose boot gave no results is not booted again, because the
//! next boot would not give any either. But a boot that hung is repeated, and the report says so: under nested
//! emulation a guest sometimes hangs.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::args::ColumnArgs;
use super::column::{BootColumn, BootResult, BootWay, VmmFailure};
use super::rows::rows;
use crate::args::exports::Exports;
use crate::exit::Exit;
use crate::output::deliver::{Delivery, deliver};
use crate::output::progress::BenchProgress;
use crate::suites::measured::{BegunBench, exit_of};
use vmbell_bench::{BenchPhase, CommandLimit, EarlyStop, Observer};
use vmbell_report::{Backend, Kind, Look, Planned, Row, Status, Vmm};
use vmbell_statistics::Random;

/// A measurement of columns.
pub(crate) struct BootsRun<'a> {
    args: &'a ColumnArgs,
    /// When to end.
    pub(crate) limit: &'a CommandLimit,
    /// When the measurement began, and by which clock.
    pub(crate) begun: BegunBench,
    /// The CPUs for the VMMs; empty means all.
    pub(crate) cpus: Vec<usize>,
    exports: Exports,
    delivery: Delivery,
    seed: u64,
    /// Why the measurement ended early.
    stopped: Cell<Option<EarlyStop>>,
}

/// What each boot of a column measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootPlan {
    /// Batches of each row per boot.
    pub(crate) batches: u32,
    /// Operations per batch, if all rows have the same number.
    pub(crate) ops: Option<u64>,
}

impl<'a> BootsRun<'a> {
    /// Begins to measure: opens the report's files and makes the folder of --keep.
    pub(crate) fn begin(args: &'a ColumnArgs, limit: &'a CommandLimit) -> Result<Self> {
        let cpus = args.measure.pinned()?.unwrap_or_default();
        let exports = Exports::open(&args.measure.exports)?;
        let begun = BegunBench::now()?;
        let look = Look {
            ratios: args.ratios,
            ..Look::default()
        };
        if let Some(keep) = &args.keep {
            fs::create_dir_all(keep)
                .with_context(|| format!("cannot make the folder {}", keep.display()))?;
        }
        Ok(Self {
            args,
            limit,
            cpus,
            exports,
            delivery: args.measure.delivery(&begun, look)?,
            seed: args.measure.seed(begun.timing),
            begun,
            stopped: Cell::new(None),
        })
    }

    /// Boots each column as often as the arguments say. `boot` gets the VMM, its program and the name of the run. A
    /// boot that hangs is repeated up to `repeats` times.
    pub(crate) fn take<W: BootWay>(
        &self,
        columns: &mut [BootColumn<W>],
        repeats: u32,
        mut boot: impl FnMut(&W, &Path, &str) -> Result<Result<BootResult, VmmFailure>>,
    ) -> Result<()> {
        let mut progress = BenchProgress::new(self.args.measure.progress(), 0);
        let bootable = columns.iter().filter(|column| column.program.is_ok());
        let boots = u64::from(self.args.runs) * bootable.count() as u64;
        progress.phase(BenchPhase::Measure, boots);
        let mut random = Random::new(self.seed);
        let mut order: Vec<usize> = (0..columns.len()).collect();
        for run in 1..=self.args.runs {
            random.shuffle(&mut order);
            for place in &order {
                let column = &mut columns[*place];
                let Some(program) = column.bootable().map(Path::to_path_buf) else {
                    continue;
                };
                let name = run.to_string();
                let booted =
                    self.repeat(column, name, repeats, |way, name| boot(way, &program, name))?;
                if self.is_stopped() {
                    return Ok(());
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
        Ok(())
    }

    /// Boots a column in the run `name`, and repeats the boot up to `repeats` times if it hangs.
    pub(crate) fn repeat<W: BootWay, B>(
        &self,
        column: &mut BootColumn<W>,
        mut name: String,
        repeats: u32,
        mut boot: impl FnMut(&W, &str) -> Result<Result<B, VmmFailure>>,
    ) -> Result<Result<B, VmmFailure>> {
        for _ in 0..repeats {
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

    /// Calls a function for each column with results, unless the command has to end.
    pub(crate) fn each<W: BootWay>(
        &self,
        columns: &mut [BootColumn<W>],
        mut with: impl FnMut(&mut BootColumn<W>, &Path) -> Result<()>,
    ) -> Result<()> {
        let mut progress = BenchProgress::new(self.args.measure.progress(), 0);
        let measured = |column: &&mut BootColumn<W>| !column.boots.is_empty();
        let columns: Vec<&mut BootColumn<W>> = columns.iter_mut().filter(measured).collect();
        progress.phase(BenchPhase::Measure, columns.len() as u64);
        for column in columns {
            if self.is_stopped() {
                return Ok(());
            }
            if let Some(program) = column.bootable().map(Path::to_path_buf) {
                with(column, &program)?;
                if self.is_stopped() {
                    return Ok(());
                }
            }
            progress.step(column.way.name(), None);
        }
        Ok(())
    }

    /// Whether the command has to end; if so, the report says why.
    fn is_stopped(&self) -> bool {
        self.stopped.set(self.stopped.get().or(self.limit.stop()));
        self.stopped.get().is_some()
    }

    /// Writes the report, which `kind` makes from its VMMs, and prints its table. The exit status says whether every
    /// column gave results.
    pub(crate) fn finish<W: BootWay>(
        self,
        plan: BootPlan,
        columns: &[BootColumn<W>],
        kind: fn(Vec<Vmm>) -> Kind,
    ) -> Result<Exit> {
        let most = columns.iter().map(|column| column.boots.len()).max();
        let finished = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
        let planned = Planned {
            runs: self.args.runs.saturating_mul(plan.batches),
            finished: finished.saturating_mul(plan.batches),
            warmup: 0,
            min_time: 0.0,
            ops: plan.ops,
        };
        let results = rows(columns, self.begun.timing);
        let vmms: Vec<Vmm> = columns.iter().map(BootColumn::vmm).collect();
        let backend = |vmm: &Vmm| Backend {
            name: vmm.name.clone(),
            why: vmm
                .version
                .clone()
                .or_else(|| vmm.program.clone())
                .unwrap_or_default(),
            emulates_kernel_mode: false,
        };
        let backends = vmms.iter().map(backend).collect();
        let mut report = self.begun.report_of(planned, backends, results, kind(vmms));
        report.interrupted = self.stopped.get() == Some(EarlyStop::Interrupted);
        report.timed_out = self.stopped.get() == Some(EarlyStop::TimedOut);
        report.cpus = self.cpus;
        report.seed = self.seed;
        deliver(&report, self.exports, self.delivery, Vec::new())?;
        let statuses = report.vmms().iter().map(|vmm| vmm.status);
        Ok(match exit_of(&report, statuses) {
            // If VMMs boot but no row has a number, nothing was measured.
            Exit::Good if !report.results.iter().any(Row::is_ok) => Exit::Skipped,
            exit => exit,
        })
    }
}
