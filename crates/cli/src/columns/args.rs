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
    /// How often each guest is booted
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = values::runs)]
    pub(crate) runs: u32,

    /// Keep what each boot printed in this folder, as NAME-RUN.log and NAME-RUN.err; where one further boot counts
    /// exits, its RUN is `exits`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,

    /// Show ratios to the first column in place of the numbers
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
    /// As root with tracefs; else the table says why not
    Auto,
    /// Always: it is an error if they cannot be counted here
    On,
    /// Never
    Off,
}
