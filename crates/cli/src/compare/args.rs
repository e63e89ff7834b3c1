//! The arguments of `vmbell compare`.

use std::path::PathBuf;

use clap::Args;

use crate::args::OUTPUT;
use crate::args::exports::BlockExportArgs;
use crate::args::values;
use crate::output::style::Style;

/// Headings of options in `--help`.
const COMPARISON: &str = "How it is compared";
const VERDICT: &str = "When it fails";

const EXAMPLES: &str = "\
Examples:
  vmbell bench --export-json old.json    measure before a change
  vmbell bench --export-json new.json    measure after it
  vmbell compare old.json new.json       show how these two runs differ
  vmbell compare old*.json -- new*.json  compare several runs on each side
  vmbell compare --turns old*.json -- new*.json
      compare runs that were measured in turns: old1, new1, old2, ...
  vmbell compare --fail-above 5% --turns old*.json -- new*.json
      exit with 1 if a row costs over 5 % more

Exit status:
  0  the reports were compared, and no row costs more than --fail-above
     allows
  1  with --fail-above, a row costs significantly more and its whole interval
     is above the limit, a row that was measured before failed or is missing,
     or no row could be found to cost more, such as with too few reports
  2  nothing was compared, or the result could not be written
";

/// Compare reports from before and after a change: ratios, intervals and verdicts
///
/// Times need several reports on each side, measured in turns: with one report per side, run-to-run variation is unknown and no
/// row has a verdict. Instruction counts need only one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Compare with these earlier reports of --export-json; if there is one OLD and one NEW, -- is not needed
    #[arg(value_name = "OLD", required = true)]
    pub(crate) old: Vec<PathBuf>,

    /// Compare these new reports; they come last, after -- and all options
    #[arg(value_name = "NEW", last = true)]
    pub(crate) new: Vec<PathBuf>,

    /// Pair the reports in their order: the first ones of both sides were measured in one turn, then the second ones,
    /// and so on. What disturbs a whole turn then cancels out
    #[arg(long, help_heading = COMPARISON)]
    pub(crate) turns: bool,

    /// Exit with 1 if a row costs significantly more and its whole confidence interval is above this, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, help_heading = VERDICT)]
    pub(crate) fail_above: Option<f64>,

    /// With --fail-above, do not fail because a row that was measured before was not measured now: it is missing or was
    /// skipped
    #[arg(long, requires = "fail_above", help_heading = VERDICT)]
    pub(crate) allow_missing: bool,

    /// Call a row the same if the whole interval of its ratio is within this of 1
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = values::percent, help_heading = COMPARISON)]
    pub(crate) band: f64,

    /// Compare reports of different CPUs or spin policies, or of an emulated and a real guest
    #[arg(long, help_heading = COMPARISON)]
    pub(crate) allow_different: bool,

    /// Use this seed for random draws, so that the same reports give the same numbers
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = COMPARISON)]
    pub(crate) seed: u64,

    /// Write the comparison as JSON; - is stdout
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) export_json: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) exports: BlockExportArgs,

    /// Show all rows, not only those that changed. Exports always have all rows
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) verbose: bool,

    /// Show the comparison in this style
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = Style::Auto, help_heading = OUTPUT)]
    pub(crate) style: Style,
}
