//! The options of `vmbell bench` that compare the result with another vmbell or an earlier report.

use std::path::PathBuf;

use clap::Args;

use crate::args::values;

/// The default number of turns.
const TURNS: u32 = 40;

/// What to compare with.
#[derive(Args, Debug)]
#[command(next_help_heading = "Before and after")]
pub(crate) struct BeforeArgs {
    /// Compare the result with this earlier report, as `vmbell compare` does; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "interleave")]
    pub(crate) baseline: Vec<PathBuf>,

    /// Measure in turns with another vmbell and compare: an older program, or a command such as 'taskset -c 2 vmbell'
    ///
    /// In each turn both run once, in random order, so that drift of the host affects both. COMMAND is split into words
    /// as by a shell; `bench` and the options of this command line are appended.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) interleave: Option<String>,

    /// Take N turns, of 3 runs each unless --runs says otherwise
    #[arg(long, value_name = "N", requires = "interleave", default_value_t = TURNS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) turns: u32,

    /// Keep the report of each turn in this folder, as old-001.json and new-001.json
    #[arg(long, value_name = "FOLDER", requires = "interleave")]
    pub(crate) keep_turns: Option<PathBuf>,

    /// Exit with 1 if the whole confidence interval of a row's slowdown is above this, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) fail_above: Option<f64>,

    /// With --fail-above, do not fail because a requested row has a result in the earlier reports but not now
    #[arg(long, requires = "fail_above")]
    pub(crate) allow_missing: bool,
}
