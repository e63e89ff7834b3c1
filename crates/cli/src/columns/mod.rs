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
use vmbell_report::{
    Backend, Common, Group, Host, Kind, Look, Measured as Numbers, Outcome, Planned, Ratio, Report,
    Row, Setting, Status, TimeUnit, Times, Timing, Tsc, Vmm, rfc3339,
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
        kind: Kind,
        results: Vec<Row>,
        interrupted: bool,
    ) -> Report {
        let mut report = Report {
            common: Common {
                tool: tool(),
                host: self.host,
                started: rfc3339(self.started),
                duration: self.begun.elapsed().as_secs_f64(),
                interrupted,
                timed_out: false,
                timing: self.timing,
                seed: 0,
                plan,
                backends: Vec::new(),
                cpus: Vec::new(),
                tsc: Tsc {
                    hz: self.clock.hz(),
                    invariant: self.clock.is_invariant(),
                },
                results,
            },
            kind,
        };
        report.common.backends = report.vmms().iter().map(backend).collect();
        report
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
    Ok(exit_of(report, report.vmms().iter().map(|vmm| vmm.status)))
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
pub(super) fn row(measured: Measured<'_>) -> Row {
    let times = Times::of(&measured.samples, measured.ops);
    Row {
        command: measured.name.to_owned(),
        group: Group::Scenario,
        backend: measured.vmm.to_owned(),
        parameters: [].into(),
        setting: Setting::default(),
        timing_valid: measured.timing == Timing::Native && !measured.is_emulated,
        reference: None,
        note: None,
        outcome: match times {
            Some(times) => Outcome::Measured(Box::new(Numbers::of(times))),
            None => Outcome::Skipped(measured.reason),
        },
    }
}

/// Compares the row with the row of another column in time.
pub(super) fn compare(new: &mut Row, old: &Row) {
    let reference = format!("{} ({})", old.command, old.backend);
    let (Some(measured), Some(old)) = (new.measured_mut(), old.times()) else {
        return;
    };
    let ratio = ratio_of_medians(&measured.times.samples, &old.samples, SEED);
    measured.ratio = ratio.map(|ratio| Ratio {
        reference,
        value: ratio.value,
        ci_low: ratio.interval.map(|[low, _]| low),
        ci_high: ratio.interval.map(|[_, high]| high),
        is_bound: false,
    });
}
