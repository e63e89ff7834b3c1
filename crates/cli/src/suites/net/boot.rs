//! One boot: a network, a guest, and netperf on the host for each pattern.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::args::NetSuiteArgs;
use super::events::NetEvents;
use super::guest::{INIT, NetFiles, READY};
use super::interface::GUEST;
use super::link::HostLink;
use super::netperf::{self, NetperfAmount, NetperfResult};
use super::pattern::NetperfPattern;
use super::way::{NetGuest, NetWay};
use crate::output::text::chain;
use crate::process::{
    self, MOST_OUTPUT, ProgramEnd, ProgramTask, Reached, RunningProgram, TimeLeft, find,
};
use crate::suites::boots::args::CountExits;
use crate::suites::boots::{
    BatchTimes, BootResult, BootRow, BootsRun, CountedBatch, VmmFailure, in_words, keep, last_words,
};
use vmbell_lab::spin::Watch;
use vmbell_report::Timing;
use vmbell_report::units::thousandths;

/// The row for the time from the VMM's start to the guest's first program.
const BOOT: &str = "boot";
/// Round trips before the first pattern that are not measured: they resolve addresses and touch pages.
const WARM_UP: u32 = 100;

/// What all boots share.
pub(super) struct NetBootContext<'a> {
    pub(super) args: &'a NetSuiteArgs,
    pub(super) run: &'a BootsRun<'a>,
    pub(super) patterns: &'a [NetperfPattern],
    pub(super) files: &'a NetFiles,
    pub(super) initrd: &'a Path,
    pub(super) cmdline: &'a str,
}

impl VmmFailure {
    fn of(reason: impl Into<String>, end: &ProgramEnd) -> Self {
        Self {
            reason: reason.into(),
            last: None,
            hung: *end == ProgramEnd::TimeLimit,
        }
    }
}

impl NetBootContext<'_> {
    /// Boots a guest and measures. The output of the guest and its VMM is kept under `name` if --keep is given.
    pub(super) fn boot(
        &self,
        way: NetWay,
        program: &Path,
        run: &str,
    ) -> Result<Result<BootResult, VmmFailure>> {
        let card = self.args.card().filter(|_| way.is_assigned());
        let link = HostLink::new(card)?;
        let guest = NetGuest {
            kernel: &self.files.kernel,
            initrd: self.initrd,
            cmdline: self.cmdline,
        };
        let words = way.words(program, guest, &link);
        let begun = Instant::now();
        let mut running = match RunningProgram::start(&words, MOST_OUTPUT, &self.run.cpus) {
            Ok(running) => running,
            Err(error) => {
                let reason = format!("{} cannot be run: {error}", program.display());
                return Ok(Err(VmmFailure::of(reason, &ProgramEnd::Stopped)));
            }
        };
        // With instructions as the clock, a spinning guest would take minutes to reach its time limit.
        let is_counted = self.run.begun.timing == Timing::Instructions;
        let watch = is_counted.then(|| Watch::start(running.id()));
        let watch = watch.transpose().context("cannot watch a guest")?;
        let measured = self.measure(&mut running, begun);
        let has_spun = watch.is_some_and(|watch| watch.found());
        let ended = running
            .end(Some(ProgramEnd::Lingered))
            .context("cannot end a VMM")?;
        keep(&self.args.columns, &way.title(), run, &ended)?;
        let last = || last_words(&ended);
        Ok(measured.map_err(|failure| match has_spun {
            true => VmmFailure {
                reason: in_words(&ProgramEnd::Spun, self.args.columns.run_timeout),
                last: last(),
                hung: true,
            },
            false => VmmFailure {
                last: last(),
                ..failure
            },
        }))
    }

    fn measure(
        &self,
        running: &mut RunningProgram,
        begun: Instant,
    ) -> Result<BootResult, VmmFailure> {
        self.reach(running, INIT, "the guest's first program did not start")?;
        let init = begun.elapsed();
        self.reach(running, READY, "netserver did not start in the guest")?;
        let amount = NetperfAmount {
            transactions: self.args.transactions,
            bytes: self.args.bytes,
        };
        let short = NetperfAmount {
            transactions: WARM_UP,
            ..amount
        };
        self.netperf(NetperfPattern::Rr, short)?;
        let mut rows = vec![row(BOOT, 1.0, init.as_secs_f64() * 1e9)];
        for pattern in self.patterns {
            let done = self.netperf(*pattern, amount)?;
            let mut row = row(&pattern.name(), done.operations, thousandths(done.ns));
            if self.args.columns.exits != CountExits::Off {
                row.counted = Some(self.count(running.id(), *pattern, amount)?);
            }
            rows.push(row);
        }
        Ok(BootResult { guest: None, rows })
    }

    fn reach(&self, running: &mut RunningProgram, mark: &str, not: &str) -> Result<(), VmmFailure> {
        let limit = self.args.columns.run_timeout;
        let mut time = TimeLeft::new(limit);
        let is_found = |piece: &[u8]| find(piece, mark).is_some();
        let end = match running.until(is_found, &mut time, self.run.limit) {
            Ok(Reached::Mark) => return Ok(()),
            Ok(Reached::End(Some(end))) => end,
            Ok(Reached::End(None)) => {
                return Err(VmmFailure::of(
                    format!("{not}: the VMM ended"),
                    &ProgramEnd::Lingered,
                ));
            }
            Err(error) => {
                return Err(VmmFailure::of(
                    format!("{not}: {error}"),
                    &ProgramEnd::Stopped,
                ));
            }
        };
        let how = in_words(&end, limit);
        Err(VmmFailure::of(format!("{not}: {how}"), &end))
    }

    fn netperf(
        &self,
        pattern: NetperfPattern,
        amount: NetperfAmount,
    ) -> Result<NetperfResult, VmmFailure> {
        let words = netperf::words(&self.files.netperf, pattern, GUEST, amount);
        let limit = self.args.columns.run_timeout;
        let name = pattern.name();
        let task = ProgramTask {
            cpus: &self.run.cpus,
            ..ProgramTask::new(&words, limit, self.run.limit)
        };
        let ended = process::run(&task).map_err(|error| {
            VmmFailure::of(
                format!("netperf cannot be run: {error}"),
                &ProgramEnd::Stopped,
            )
        })?;
        match &ended.end {
            ProgramEnd::Exited(status) if status.success() => {}
            ProgramEnd::Exited(status) => {
                let said = last_words(&ended).map_or_else(String::new, |said| format!(": {said}"));
                let reason = format!("netperf ({name}) ended with {status}{said}");
                return Err(VmmFailure::of(reason, &ended.end));
            }
            end => {
                let reason = format!("netperf ({name}): {}", in_words(end, limit));
                return Err(VmmFailure::of(reason, end));
            }
        }
        netperf::read(&ended.output, pattern, amount)
            .map_err(|error| VmmFailure::of(format!("{name}: {error}"), &ended.end))
    }

    /// Runs a pattern again and counts its events.
    fn count(
        &self,
        process: u32,
        pattern: NetperfPattern,
        amount: NetperfAmount,
    ) -> Result<Result<Vec<CountedBatch>, String>, VmmFailure> {
        let recording = match NetEvents::record(process) {
            Ok(recording) => recording,
            Err(error) => return Ok(Err(chain(error))),
        };
        let done = self.netperf(pattern, amount)?;
        let counted = recording.finish().map_err(chain);
        Ok(counted.map(|events| vec![events.counted(done.operations)]))
    }
}

/// A row with one number, without events.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of at most 2^31"
)]
fn row(name: &str, operations: f64, ns: f64) -> BootRow {
    BootRow {
        name: name.to_owned(),
        description: NetperfPattern::described(name),
        batches: Ok(BatchTimes {
            operations: operations.round() as u64,
            ns: vec![ns],
        }),
        counted: None,
    }
}
