//! The options of `vmbell bench` that compare what it measures with a vmbell or a report of before.

use std::path::PathBuf;

use clap::Args;

use crate::values;

/// How many turns there are unless the command line says otherwise.
const TURNS: u32 = 40;

/// What to compare with.
#[derive(Args, Debug)]
#[command(next_help_heading = "Before and after")]
pub(crate) struct BeforeArgs {
    /// Compare with an earlier report, after measuring; may be given several times. See `vmbell compare`
    #[arg(long, value_name = "FILE", conflicts_with = "interleave")]
    pub(crate) baseline: Vec<PathBuf>,

    /// Measure in turns with another vmbell and compare: an older program, or the same one behind words such as 'taskset -c 2
    /// vmbell'
    ///
    /// In each turn both run once, in an order of chance, so that whatever drifts on the host acts on both. The command is split
    /// into words as a shell does it; `bench` and the options of this command line follow.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) interleave: Option<String>,

    /// How often both are measured; each time with 3 runs, unless --runs says otherwise
    #[arg(long, value_name = "N", requires = "interleave", default_value_t = TURNS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) turns: u32,

    /// Keep the report of each turn in this folder, as old-001.json and new-001.json
    #[arg(long, value_name = "FOLDER", requires = "interleave")]
    pub(crate) keep_turns: Option<PathBuf>,

    /// Exit with 1 if the whole interval of a row is above this, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) fail_above: Option<f64>,
}
