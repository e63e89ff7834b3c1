//! What every measuring command adds to its report, in addition to the samples.

use std::time::{Instant, SystemTime};

use anyhow::Result;

use super::time_unit;
use crate::exit::{Exit, Usage};
use crate::version;
use vmbell_bench::{
    BenchPlan, Record, ReportFacts, SubjectOptions, TickClock, assemble, host, timing,
};
use vmbell_report::{
    Backend, Host, Kind, Planned, Report, Row, Status, TimeUnit, Timing, Tool, Tsc, rfc3339,
};

/// A command that has begun to measure: when, on which host, and by which clock.
#[derive(Debug)]
pub(crate) struct BegunBench {
    host: Host,
    started: SystemTime,
    begun: Instant,
    /// What a nanosecond of the clock means.
    pub(crate) timing: Timing,
    /// The clock that guests measure with.
    pub(crate) clock: TickClock,
}

impl BegunBench {
    /// Notes the time and reads the facts about this host.
    pub(crate) fn now() -> Result<Self> {
        let timing = timing::here().map_err(Usage::new)?;
        Ok(Self {
            host: host::probe(),
            started: SystemTime::now(),
            begun: Instant::now(),
            timing,
            clock: clock(timing),
        })
    }

    /// The requested unit for all times; fails if the report cannot have it.
    pub(crate) fn time_unit(
        &self,
        unit: Option<time_unit::TimeUnitName>,
    ) -> Result<Option<TimeUnit>> {
        time_unit::checked(unit, self.timing, &self.clock)
    }

    /// Makes the report of `record`, with what its suite adds. `compared` names the events that rows are compared by,
    /// in addition to time.
    pub(crate) fn report(
        self,
        record: &Record,
        (options, plan): (&SubjectOptions, &BenchPlan),
        backends: Vec<Backend>,
        kind: Kind,
        compared: &[&str],
    ) -> Report {
        let context = ReportFacts {
            tool: tool(),
            options,
            plan,
            host: self.host,
            backends,
            started: self.started,
            duration: self.begun.elapsed(),
            compared,
        };
        assemble(record, context, kind)
    }

    /// Makes a report from rows that do not come from a record.
    pub(crate) fn report_of(
        self,
        plan: Planned,
        backends: Vec<Backend>,
        results: Vec<Row>,
        kind: Kind,
    ) -> Report {
        Report {
            kind,
            tool: tool(),
            host: self.host,
            started: rfc3339(self.started),
            duration: self.begun.elapsed().as_secs_f64(),
            interrupted: false,
            timed_out: false,
            timing: self.timing,
            seed: 0,
            plan,
            backends,
            cpus: Vec::new(),
            tsc: Tsc {
                hz: self.clock.hz(),
                invariant: self.clock.is_invariant(),
            },
            results,
        }
    }
}

/// This program, as named in reports.
fn tool() -> Tool {
    Tool {
        name: "vmbell".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: version::GIT.map(str::to_owned),
    }
}

/// The clock that guests measure with. A host without a usable counter runs no guest, and its floors need no counter,
/// so any frequency will do. Where time is counted in instructions, the counter counts them too.
fn clock(timing: Timing) -> TickClock {
    if timing == Timing::Instructions {
        return TickClock::of_instructions();
    }
    TickClock::calibrate().unwrap_or_else(|_| TickClock::with_frequency(1e9, false))
}

/// The exit status for a report. An interrupt or the time limit takes precedence over a failed row, because it may have
/// caused the failure.
pub(crate) fn exit(report: &Report) -> Exit {
    exit_of(report, report.results.iter().map(Row::status))
}

/// Like [`exit`], for a report whose success depends on these statuses.
pub(crate) fn exit_of(report: &Report, mut statuses: impl Iterator<Item = Status> + Clone) -> Exit {
    if report.interrupted {
        Exit::Interrupted
    } else if report.timed_out {
        Exit::TimedOut
    } else if statuses.clone().any(|status| status == Status::Failed) {
        Exit::Failed
    } else if statuses.all(|status| status == Status::Skipped) {
        Exit::Skipped
    } else {
        Exit::Good
    }
}
