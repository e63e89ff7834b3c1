//! The options that `vmbell bench vmms` and `vmbell bench net` share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::values;
use crate::args::{MEASUREMENT, OUTPUT};
use crate::suites::measure_args::MeasureArgs;

/// Options of a report with a column for each VMM.
#[derive(Args, Debug)]
pub(crate) struct ColumnArgs {
    /// Boot each guest N times
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = values::positive::<u32>, help_heading = MEASUREMENT)]
    pub(crate) runs: u32,

    /// Count exits, and those that go to the VMM, in one further boot of each VMM (`vmms`) or a further run of each
    /// pattern (`net`)
    ///
    /// Counting needs root and tracefs: the events are those of KVM's tracepoints.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = CountExits::Auto, help_heading = MEASUREMENT)]
    pub(crate) exits: CountExits,

    /// Give up a VMM if one boot, or one run of netperf, takes longer than this, and go on with the others
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::positive_duration, help_heading = MEASUREMENT)]
    pub(crate) run_timeout: Duration,

    /// Keep what each boot prints in this folder, as NAME-RUN.log and NAME-RUN.err; RUN is `exits` for the boot that
    /// counts exits
    #[arg(long, value_name = "FOLDER", help_heading = OUTPUT)]
    pub(crate) keep: Option<PathBuf>,

    /// Show ratios to the first column instead of the numbers
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) ratios: bool,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

/// Whether exits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountExits {
    /// Count if it is possible here; otherwise the table says why not
    Auto,
    /// Count, and fail if that is not possible here
    On,
    /// Do not count
    Off,
}
