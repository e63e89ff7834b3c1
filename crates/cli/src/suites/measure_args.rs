//! The options that all suites share ([`MeasureArgs`]): output, time limits, CPUs and order.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use clap::Args;

use super::measured::BegunBench;
use super::time_unit::TimeUnitName;
use crate::args::exports::ExportArgs;
use crate::args::values::{self, CpuList};
use crate::args::{MEASUREMENT, OUTPUT};
use crate::exit::Usage;
use crate::interrupt;
use crate::output::deliver::Delivery;
use crate::output::style::Style;
use vmbell_bench::affinity::{allowed_cpus, default_pair};
use vmbell_bench::timing::is_in_lab;
use vmbell_bench::{BenchPlan, CommandLimit, EarlyStop};
use vmbell_report::{Look, Timing, cpu_list};

/// The default time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The options of every suite.
#[derive(Args, Debug)]
pub(crate) struct MeasureArgs {
    /// Stop the command after this time, write the finished results and exit with 124; 0 is no limit [default: 5m; 0
    /// for vmms and net, and in the lab]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = MEASUREMENT)]
    pub(crate) timeout: Option<Duration>,

    /// Pin the guest to the first of these CPUs, such as 0,2, and the VMM to the second one
    ///
    /// The driver of a ring counts as the guest; the device and waiting threads are pinned like the VMM. `vmms` and
    /// `net` pin each VMM and netperf to all of these CPUs.
    #[arg(short = 'C', long, value_name = "LIST", value_parser = values::cpus, help_heading = MEASUREMENT)]
    pub(crate) cpu: Option<CpuList>,

    /// Use this seed for the random order, such as the one in an earlier report
    #[arg(long, value_name = "N", help_heading = MEASUREMENT)]
    pub(crate) seed: Option<u32>,

    #[command(flatten)]
    pub(crate) exports: ExportArgs,

    /// Show the report in this style
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Auto, help_heading = OUTPUT)]
    pub(crate) style: Style,

    /// Show all times in this unit [default: one that fits each time]
    #[arg(long, value_enum, value_name = "UNIT", help_heading = OUTPUT)]
    pub(crate) time_unit: Option<TimeUnitName>,

    /// Print no warnings
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_warnings: bool,

    /// Print neither progress nor warnings
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,

    /// Show the full report: the host, every row, floors, exits, intervals and every warning
    #[arg(short, long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub(crate) verbose: bool,
}

impl MeasureArgs {
    /// Whether the progress is shown.
    pub(crate) fn progress(&self) -> bool {
        self.style.progress() && !self.quiet
    }

    /// How to show the report, with the suite's `look`; fails if the report cannot have the requested unit.
    pub(crate) fn delivery(&self, begun: &BegunBench, look: Look) -> Result<Delivery> {
        Ok(Delivery {
            style: self.style,
            warns: !self.quiet && !self.no_warnings,
            look: Look {
                unit: begun.time_unit(self.time_unit)?,
                verbose: self.verbose,
                ..look
            },
        })
    }

    /// The command's time limit; zero is no limit.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// The command's limit from now on: its time, and a signal.
    pub(crate) fn limit(&self) -> Result<CommandLimit> {
        limit(self.timeout())
    }

    /// Like [`limit`](Self::limit), for boots of VMMs. Each boot has its own limit, so all of them together have one
    /// only if it is given.
    pub(crate) fn limit_of_boots(&self) -> Result<CommandLimit> {
        limit(self.timeout.unwrap_or_default())
    }

    /// The CPUs of `--cpu`, if given; fails if this process may not use all of them.
    pub(crate) fn pinned(&self) -> Result<Option<Vec<usize>>> {
        let Some(CpuList(wanted)) = &self.cpu else {
            return Ok(None);
        };
        let allowed = allowed_cpus()?;
        match wanted.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(Some(wanted.clone())),
            Some(absent) => Err(Usage::new(format!(
                "--cpu: CPU {absent} does not exist or is not allowed for this process, which may use {}",
                cpu_list::Display(&allowed)
            ))
            .into()),
        }
    }

    /// The CPUs to measure on: those of `--cpu`, otherwise a pair.
    pub(crate) fn cpus(&self) -> Result<Vec<usize>> {
        match self.pinned()? {
            Some(cpus) => Ok(cpus),
            None => Ok(default_pair(&allowed_cpus()?)),
        }
    }

    /// The seed of the order: the one that `--seed` gives, or a new one made from the current time in nanoseconds and
    /// the PID. If figures do not depend on time, the default is always the same.
    pub(crate) fn seed(&self, timing: Timing) -> u64 {
        match (self.seed, timing) {
            (Some(seed), _) => seed.into(),
            (None, Timing::Emulated | Timing::Instructions) => BenchPlan::counted().seed,
            (None, Timing::Native) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let nanos = now.map_or(0, |now| now.subsec_nanos());
                (nanos ^ std::process::id().rotate_left(16)).into()
            }
        }
    }
}

/// A limit by signals only.
pub(crate) fn limit_of_signals() -> Result<CommandLimit> {
    limit(Duration::ZERO)
}

/// A limit by this time (zero for no limit) and by signals.
fn limit(timeout: Duration) -> Result<CommandLimit> {
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    let limit = CommandLimit::new(
        Some(timeout).filter(|timeout| !timeout.is_zero()),
        interrupted,
    );
    Ok(limit.with_meaning(meaning_of_signal))
}

/// Why a signal ends the command. The lab sends SIGTERM when its own time limit has passed.
fn meaning_of_signal() -> EarlyStop {
    if is_in_lab() && i32::from(interrupt::signal()) == libc::SIGTERM {
        EarlyStop::TimedOut
    } else {
        EarlyStop::Interrupted
    }
}
