//! The arguments of `vmbell compare`.

use std::path::PathBuf;

use clap::Args;

use super::style::Style;
use super::values;

const EXAMPLES: &str = "\
Examples:
  vmbell bench --export-json old.json           before a change
  vmbell bench --export-json new.json           after it
  vmbell compare old.json new.json              what these two runs differ in
  vmbell compare old*.json -- new*.json         several runs on each side
  vmbell compare --turns old*.json -- new*.json
                                                the same, measured by turns: old1, new1, old2, new2, ...
  vmbell compare --fail-above 5% --turns old*.json -- new*.json
                                                exit 1 if a row is slower by more than 5 %

Exit codes:
  0  compared, and with --fail-above no row is slower by more
  1  with --fail-above, a row is slower by more (its whole interval, and significantly among all rows), or was measured
     before and failed now
  2  nothing was compared, or its result could not be written
";

/// Compare reports from before and after a change: ratios, intervals and verdicts
///
/// One run against one run cannot tell a change from what differs between two runs of the same. Take several of each,
/// by turns.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompareArgs {
    /// Reports from before, as --export-json writes them; a single one may be followed by the new one without --
    #[arg(value_name = "OLD", required = true)]
    pub(super) old: Vec<PathBuf>,

    /// Reports from after, behind all options
    #[arg(value_name = "NEW", last = true)]
    pub(super) new: Vec<PathBuf>,

    /// The first reports of both sides were measured in one turn, one right after the other, then the second ones, and
    /// so on: what disturbs both in a turn cancels out
    #[arg(long)]
    pub(super) turns: bool,

    /// Exit with 1 if a row is slower by more than this: its whole interval, and significantly among all rows
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(super) fail_above: Option<f64>,

    /// How far from 1 the whole interval of a ratio may be for its row to be the same
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = values::percent)]
    pub(super) band: f64,

    /// Compare what should not be compared: another CPU, spin policy or unit, an emulated guest with a real one
    #[arg(long)]
    pub(super) allow_different: bool,

    /// The seed of the random draws; the same one gives the same numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,

    /// Write the comparison as JSON; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) export_json: Option<PathBuf>,

    /// Write the comparison as Markdown; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) export_markdown: Option<PathBuf>,

    /// How the comparison looks on the terminal
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Auto)]
    pub(super) style: Style,
}
