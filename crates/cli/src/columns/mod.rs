//! A report whose columns are VMMs, as `vmbell bench vmms` and `vmbell bench net` make it, and its rows.

pub(super) mod args;

use std::io;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::Result;

use self::args::ColumnArgs;
use super::exit::Exit;
use super::exports::Exports;
use super::measured::{clock, exit_of, tool};
use super::output::print;
use super::style::{self, Style};
use super::time_unit;
use vmbell_bench::{Clock, host};
use vmbell_report::bootstrap::ratio_of_medians;
use vmbell_report::outliers::Outliers;
use vmbell_report::statistics::{Summary, percentile, thousandths};
use vmbell_report::{
    Backend, Counts, Group, Host, Look, Percentiles, PercentilesOf, Planned, Ratio, Report, Row,
    SCHEMA_VERSION, Status, TimeUnit, Timing, Tsc, Vmm, rfc3339,
};

/// The seed of the intervals of ratios: the same samples have the same interval.
const SEED: u64 = 1;

/// A boot that gave no results.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub(super) reason: String,
    /// What was printed last.
    pub(super) last: Option<String>,
    /// Whether it ran out of its time.
    pub(super) hung: bool,
}

/// What every column says of its VMM.
#[derive(Debug)]
pub(super) struct State<'a> {
    /// The column's name.
    pub(super) name: &'a str,
    /// The VMM's program, or why it cannot be booted here.
    pub(super) program: &'a Result<PathBuf, String>,
    /// What the program says about its version.
    pub(super) version: &'a Option<String>,
    /// How many boots gave results.
    pub(super) boots: usize,
    /// The boot that gave none.
    pub(super) failure: Option<&'a Failure>,
    /// Why a boot before that was repeated.
    pub(super) repeated: &'a Option<String>,
}

/// The column, for a guest of which nothing more is known.
pub(super) fn vmm(state: State<'_>) -> Vmm {
    let (status, reason) = match (state.program, state.failure) {
        (Err(reason), _) => (Status::Skipped, Some(reason.clone())),
        (_, Some(failure)) => (Status::Failed, Some(failure.reason.clone())),
        (Ok(_), None) if state.boots == 0 => {
            let reason = "the command ended before its turn";
            (Status::Skipped, Some(reason.to_owned()))
        }
        (Ok(_), None) => (Status::Ok, None),
    };
    let failure = state.failure.filter(|_| status == Status::Failed);
    let program = state.program.as_ref().ok();
    Vmm {
        name: state.name.to_owned(),
        status,
        reason,
        last_output: failure.and_then(|failure| failure.last.clone()),
        program: program.map(|path| path.display().to_string()),
        version: state.version.clone(),
        boots: u32::try_from(state.boots).unwrap_or(u32::MAX),
        emulated: false,
        guest: None,
        repeated: state.repeated.clone(),
        exits_reason: None,
    }
}

/// A comparison that has begun: when that was, on which host, and by which clock.
#[derive(Debug)]
pub(super) struct Begun {
    host: Host,
    started: SystemTime,
    begun: Instant,
    /// What a nanosecond stands for.
    pub(super) timing: Timing,
    /// The counter of this host.
    pub(super) clock: Clock,
}

impl Begun {
    /// Notes the time and reads the facts about this host.
    pub(super) fn now(timing: Timing) -> Self {
        Self {
            started: SystemTime::now(),
            begun: Instant::now(),
            host: host::probe(),
            timing,
            clock: clock(timing),
        }
    }

    /// The unit of all times that the user asks for; an error if the report cannot have it.
    pub(super) fn time_unit(&self, unit: Option<time_unit::TimeUnit>) -> Result<Option<TimeUnit>> {
        time_unit::checked(unit, self.timing, &self.clock)
    }

    /// Makes the report.
    pub(super) fn report(
        self,
        plan: Planned,
        vmms: Vec<Vmm>,
        results: Vec<Row>,
        interrupted: bool,
    ) -> Report {
        let backends: Vec<Backend> = vmms.iter().map(backend).collect();
        Report {
            schema_version: SCHEMA_VERSION,
            tool: tool(),
            host: self.host,
            started: rfc3339(self.started),
            duration: self.begun.elapsed().as_secs_f64(),
            interrupted,
            timing: self.timing,
            timed_out: false,
            seed: 0,
            plan,
            backend: backends.first().cloned().unwrap_or_default(),
            backends,
            spin: "sleep".to_owned(),
            cpus: Vec::new(),
            tsc: Tsc {
                hz: self.clock.hz(),
                invariant: self.clock.is_invariant(),
            },
            results,
            verdict: Vec::new(),
            highlights: Vec::new(),
            ratios_to: "first VMM".to_owned(),
            counting: None,
            vmms,
        }
    }
}

fn backend(vmm: &Vmm) -> Backend {
    Backend {
        name: vmm.name.clone(),
        why: vmm
            .version
            .clone()
            .or_else(|| vmm.program.clone())
            .unwrap_or_default(),
        emulates_kernel_mode: false,
    }
}

/// Writes the report's files and prints its table; the exit status says whether every column gave results.
pub(super) fn finish(
    report: &Report,
    exports: Exports,
    unit: Option<TimeUnit>,
    args: &ColumnArgs,
) -> Result<Exit> {
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish(report, unit);
    show(report, args.style, (unit, args.ratios), stdout_is_taken)?;
    exported?;
    Ok(exit_of(report, report.vmms.iter().map(|vmm| vmm.status)))
}

/// Prints the table, to stderr if stdout is taken by an export.
fn show(
    report: &Report,
    style: Style,
    (unit, ratios): (Option<TimeUnit>, bool),
    stdout_is_taken: bool,
) -> Result<()> {
    if style == Style::None {
        return Ok(());
    }
    let look = Look {
        color: if stdout_is_taken {
            style.color(&io::stderr())
        } else {
            style.color(&io::stdout())
        },
        ratios,
        unit,
        width: style::width(stdout_is_taken),
        ..Look::default()
    };
    let text = vmbell_report::terminal(report, look);
    if stdout_is_taken {
        eprint!("{text}");
        return Ok(());
    }
    print(&text)
}

/// What a row is made of.
#[derive(Clone, Debug)]
pub(super) struct Measured<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The VMM's.
    pub(super) vmm: &'a str,
    /// Nanoseconds of one operation, in each sample.
    pub(super) samples: Vec<f64>,
    /// How many operations each sample has.
    pub(super) ops: Vec<u64>,
    /// Why there is no sample.
    pub(super) reason: Option<String>,
    /// What a nanosecond stands for.
    pub(super) timing: Timing,
    /// Whether the guest's CPU was emulated.
    pub(super) is_emulated: bool,
}

/// The row, without exits.
#[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
pub(super) fn row(measured: Measured<'_>) -> Row {
    let Measured {
        samples,
        ops,
        timing,
        ..
    } = measured;
    let summary = Summary::of(&samples);
    let stat = |pick: fn(&Summary) -> f64| summary.as_ref().map(pick);
    let outliers = Outliers::of(&samples);
    let differ = ops.iter().any(|one| Some(one) != ops.first());
    let shortest = samples
        .iter()
        .zip(&ops)
        .map(|(ns, ops)| ns * *ops as f64 / 1e9);
    Row {
        command: measured.name.to_owned(),
        group: Group::Scenario,
        status: if samples.is_empty() {
            Status::Skipped
        } else {
            Status::Ok
        },
        reason: measured.reason.filter(|_| samples.is_empty()),
        mean_ns: stat(|s| s.mean),
        stddev_ns: summary.as_ref().and_then(|s| s.stddev),
        median_ns: stat(|s| s.median),
        instructions: stat(|s| s.median)
            .map(thousandths)
            .filter(|_| timing == Timing::Instructions),
        user_ns: None,
        system_ns: None,
        min_ns: stat(|s| s.min),
        max_ns: stat(|s| s.max),
        parameters: [].into(),
        backend: measured.vmm.to_owned(),
        spin: None,
        cpus: Vec::new(),
        exits: None,
        exit_reasons: None,
        timing_valid: timing == Timing::Native && !measured.is_emulated,
        ops_per_run: ops.last().copied().unwrap_or_default(),
        shortest_run: shortest.min_by(f64::total_cmp),
        percentiles_ns: Percentiles::of(samples.len() as f64, |share| percentile(&samples, share)),
        percentiles_of: PercentilesOf::Runs,
        spread: summary
            .as_ref()
            .filter(|_| samples.len() >= 3)
            .map(Summary::relative_spread),
        outliers: outliers.count as u64,
        outliers_shift: outliers.median_shift,
        reference: None,
        ratio: None,
        exits_per_op: None,
        events: Counts::default(),
        counts: Counts::default(),
        ratios: [].into(),
        note: None,
        exits_note: None,
        address_space: None,
        resolution_ns: None,
        ops: if differ { ops } else { Vec::new() },
        samples_ns: samples,
    }
}

/// The ratio of two rows' medians.
pub(super) fn ratio(new: &Row, old: &Row) -> Option<Ratio> {
    let measured = ratio_of_medians(&new.samples_ns, &old.samples_ns, SEED)?;
    Some(Ratio {
        reference: format!("{} ({})", old.command, old.backend),
        value: measured.value,
        ci_low: measured.interval.map(|[low, _]| low),
        ci_high: measured.interval.map(|[_, high]| high),
        is_bound: false,
    })
}
