//! The options that all commands share which measure and export: where the report goes, and how it looks.

use anyhow::Result;
use clap::Args;

use super::deliver::Delivery;
use super::exports::ExportArgs;
use super::measured::Begun;
use super::style::Style;
use super::time_unit::TimeUnit;
use vmbell_report::Look;

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

    /// Print neither progress nor warnings
    #[arg(short, long)]
    pub(super) quiet: bool,
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
            warns: !self.quiet,
            look: Look {
                unit: begun.time_unit(self.time_unit)?,
                ..look
            },
        })
    }
}
