//! Makes the report of what the boots gave, and prints its table.

use std::io;
use std::time::{Instant, SystemTime};

use anyhow::Result;

use super::args::VmmArgs;
use super::rows::{self, Facts};
use super::turns::{Column, Exits};
use crate::measured::{clock, tool};
use crate::output::print;
use crate::style::{self, Style};
use crate::time_unit;
use vmbell_bench::{Clock, host};
use vmbell_report::{
    Backend, Host, Look, Planned, Report, SCHEMA_VERSION, Status, TimeUnit, Timing, Tsc, Vmm,
    rfc3339,
};

/// A comparison that has begun: when that was, on which host, and by which clock.
#[derive(Debug)]
pub(super) struct Begun {
    host: Host,
    started: SystemTime,
    begun: Instant,
    timing: Timing,
    clock: Clock,
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

    /// The unit of all times that the arguments ask for; an error if the report cannot have it.
    pub(super) fn time_unit(&self, args: &VmmArgs) -> Result<Option<TimeUnit>> {
        time_unit::checked(args.time_unit, self.timing, &self.clock)
    }

    /// Makes the report.
    pub(super) fn report(self, args: &VmmArgs, columns: &[Column], interrupted: bool) -> Report {
        let facts = Facts {
            clock: &self.clock,
            timing: self.timing,
            devices: &args.device,
        };
        let vmms: Vec<Vmm> = columns.iter().map(vmm).collect();
        let backends: Vec<Backend> = vmms.iter().map(backend).collect();
        let most = columns.iter().map(|column| column.boots.len()).max();
        let finished = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
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
            plan: Planned {
                runs: args.runs.saturating_mul(args.batches),
                finished: finished.saturating_mul(args.batches),
                warmup: 0,
                min_time: 0.0,
                ops: Some(args.ops.into()),
            },
            backend: backends.first().cloned().unwrap_or_default(),
            backends,
            spin: "sleep".to_owned(),
            cpus: Vec::new(),
            tsc: Tsc {
                hz: self.clock.hz(),
                invariant: self.clock.is_invariant(),
            },
            results: rows::rows(columns, facts),
            verdict: Vec::new(),
            highlights: Vec::new(),
            ratios_to: "first VMM".to_owned(),
            counting: None,
            vmms,
        }
    }
}

fn vmm(column: &Column) -> Vmm {
    let (status, reason, last) = match (&column.program, &column.failure) {
        (Err(reason), _) => (Status::Skipped, Some(reason.clone()), None),
        (_, Some(failure)) => (
            Status::Failed,
            Some(failure.reason.clone()),
            failure.last.clone(),
        ),
        (Ok(_), None) if column.boots.is_empty() => (
            Status::Skipped,
            Some("the command ended before its turn".to_owned()),
            None,
        ),
        (Ok(_), None) => (Status::Ok, None, None),
    };
    Vmm {
        name: column.launcher.name().to_owned(),
        status,
        reason,
        last_output: last,
        program: column
            .program
            .as_ref()
            .ok()
            .map(|path| path.display().to_string()),
        version: column.version.clone(),
        boots: u32::try_from(column.boots.len()).unwrap_or(u32::MAX),
        emulated: rows::is_emulated(column),
        guest: column.boots.first().map(|boot| boot.guest.clone()),
        repeated: column.repeated.clone(),
        exits_reason: match &column.exits {
            Exits::Uncounted(reason) => Some(reason.clone()),
            Exits::Off | Exits::Counted(_) => None,
        },
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

/// Prints the table, to stderr if stdout is taken by an export.
pub(super) fn show(
    report: &Report,
    args: &VmmArgs,
    unit: Option<TimeUnit>,
    stdout_is_taken: bool,
) -> Result<()> {
    if args.style == Style::None {
        return Ok(());
    }
    let look = Look {
        color: if stdout_is_taken {
            args.style.color(&io::stderr())
        } else {
            args.style.color(&io::stdout())
        },
        ratios: args.ratios,
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
