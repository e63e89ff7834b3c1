//! The options that `vmbell bench vmms` and `vmbell bench net` share: how often their guests are booted, and how the report looks.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::exports::ExportArgs;
use crate::style::Style;
use crate::time_unit::TimeUnit;
use crate::values;

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
    pub(crate) exports: ExportArgs,

    /// How the report looks on the terminal
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Auto)]
    pub(crate) style: Style,

    /// The unit of all times on the terminal and in Markdown; without it, the one that fits each
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) time_unit: Option<TimeUnit>,

    /// No progress and no warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl ColumnArgs {
    /// Makes the folder of --keep.
    pub(crate) fn make_folder(&self) -> Result<()> {
        let Some(keep) = &self.keep else {
            return Ok(());
        };
        fs::create_dir_all(keep)
            .with_context(|| format!("cannot make the folder {}", keep.display()))
    }

    /// Whether the progress is shown.
    pub(crate) fn progress(&self) -> bool {
        self.style.progress() && !self.quiet
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
