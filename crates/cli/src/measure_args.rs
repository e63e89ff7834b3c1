//! The options that all suites share: where the report goes and how it looks ([`MeasureArgs`]), and for rows that this process
//! measures itself, by the bench's runner, where and how long ([`RunnerArgs`]).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::deliver::Delivery;
use super::exports::ExportArgs;
use super::measured::Begun;
use super::style::Style;
use super::time_unit::TimeUnit;
use super::values::{self, CpuList};
use super::{cpus, seed};
use vmbell_bench::Limit;
use vmbell_report::Look;

/// How long a command may take unless it is told otherwise.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Where the report goes, and how it looks.
#[derive(Args, Debug)]
pub(super) struct MeasureArgs {
    #[command(flatten)]
    pub(super) exports: ExportArgs,

    /// Show the report in this style
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Auto)]
    pub(super) style: Style,

    /// Show all times in this unit [default: the one that fits each]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(super) time_unit: Option<TimeUnit>,

    /// Print no warnings
    #[arg(long)]
    pub(super) no_warnings: bool,

    /// Print neither progress nor warnings
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Show everything that was measured: of paths, the whole header, floors, intervals, exits and every warning
    #[arg(short, long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
}

impl MeasureArgs {
    /// Whether the progress is shown.
    pub(super) fn progress(&self) -> bool {
        self.style.progress() && !self.quiet
    }

    /// How the report is shown, with more of `look`; an error if it cannot have the unit that the user asks for.
    pub(super) fn delivery(&self, begun: &Begun, look: Look) -> Result<Delivery> {
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
}

/// Where rows are measured by the bench's runner, and how long.
#[derive(Args, Debug)]
pub(super) struct RunnerArgs {
    /// Stop the command after this time, write what is finished and exit with 124; 0 is no limit [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(super) timeout: Option<Duration>,

    /// Pin the guest, or the driver of a ring, to the first CPU of LIST, and the VMM, the device and threads that wait to the
    /// second, such as 0,2
    #[arg(short = 'C', long, value_name = "LIST", value_parser = values::cpus)]
    pub(super) cpu: Option<CpuList>,

    /// Measure in the order of an earlier report, which has its seed
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u32>,
}

impl RunnerArgs {
    /// How long the command may take; zero for no limit.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// The limit of a measurement that `interrupted` ends.
    pub(super) fn limit(&self, interrupted: &'static AtomicBool) -> Limit {
        let timeout = self.timeout();
        Limit::new((!timeout.is_zero()).then_some(timeout), interrupted)
    }

    /// The CPUs to pin to.
    pub(super) fn cpus(&self) -> Result<Vec<usize>> {
        cpus::choose(self.cpu.as_ref())
    }

    /// The seed of the order of rows.
    pub(super) fn seed(&self) -> u64 {
        u64::from(self.seed.unwrap_or_else(seed::fresh))
    }
}
