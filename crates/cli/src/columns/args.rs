//! The options that `vmbell bench vmms` and `vmbell bench net` share.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::deliver::Delivery;
use crate::measure_args::MeasureArgs;
use crate::measured::Begun;
use crate::values;
use vmbell_report::Look;

/// Options of a report with a column for each VMM.
#[derive(Args, Debug)]
pub(crate) struct ColumnArgs {
    /// Boot each guest N times
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = values::runs)]
    pub(crate) runs: u32,

    /// Keep what each boot prints in this folder, as NAME-RUN.log and NAME-RUN.err; RUN is `exits` for a further boot that
    /// counts exits
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,

    /// Show ratios to the first column instead of the numbers
    #[arg(long)]
    pub(crate) ratios: bool,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl ColumnArgs {
    /// How the report is shown.
    pub(crate) fn delivery(&self, begun: &Begun) -> Result<Delivery> {
        let look = Look {
            ratios: self.ratios,
            ..Look::default()
        };
        self.measure.delivery(begun, look)
    }

    /// Makes the folder of --keep.
    pub(crate) fn make_folder(&self) -> Result<()> {
        let Some(keep) = &self.keep else {
            return Ok(());
        };
        fs::create_dir_all(keep)
            .with_context(|| format!("cannot make the folder {}", keep.display()))
    }
}

/// Whether exits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountExits {
    /// Count as root with tracefs; otherwise the table says why not
    Auto,
    /// Count always, and fail if that is not possible here
    On,
    /// Do not count
    Off,
}
