//! The arguments of `vmbell gate`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, RangedI64ValueParser};

use crate::args::{MEASUREMENT, OUTPUT, SUBJECT};
use crate::suites::vmms::{VmmDeviceName, row};

/// How many boots a measurement may have.
pub(super) const BOOTS: RangeInclusive<u32> = 1..=1000;

/// Headings of options in `--help`.
const BUDGET: &str = "The budget";
const NEW: &str = "What --init writes into it";

const EXAMPLES: &str = "\
Examples:
  vmbell gate --init alioth      measure alioth, and write its plan and budget
  vmbell gate                    measure again, and fail if a figure grew
  vmbell gate --accept           make the new figures the budget
  vmbell gate --json | jq .grown
      let a program read the verdict
  vmbell gate --vmm alioth=target/release/alioth
      measure this build of alioth
  vmbell gate --markdown \"$GITHUB_STEP_SUMMARY\"
      write the verdict where a reviewer reads it
  vmbell gate --init --kernel debian:6.1 --kernel debian:6.12 \\
      --vmm 'mine=my-vmm --kernel {image} --cmdline {cmdline} --disk {disk}'
      add a VMM by its command line, and check it on two kernels

Exit status:
  0    everything is within the budget
  1    a figure grew, a row is missing, or a VMM failed
  2    the arguments or files are wrong, or the budget does not match the plan
  125  the lab itself failed
  130  interrupted by SIGINT (143: by SIGTERM)
";

/// Check the exits and instructions of VMMs against a budget
///
/// Boots a guest image in each VMM on real KVM in the deterministic lab, several times with perturbed layouts, counts
/// the exits and the instructions of its operations, and compares them with the budget. vmbell-gate.toml says what is
/// measured, and a report next to it for each kernel is the budget. The figures do not depend on the machine, so you
/// can keep both in your repository.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GateArgs {
    /// Measure, and write a plan and a budget for these VMMs: names of `vmbell list vmms` or of --vmm
    #[arg(long, conflicts_with = "accept", help_heading = BUDGET)]
    pub(super) init: bool,

    /// Measure these VMMs, with --init
    #[arg(value_name = "NAME", requires = "init")]
    pub(super) names: Vec<String>,

    /// Make the new figures the budget
    #[arg(long, help_heading = BUDGET)]
    pub(super) accept: bool,

    /// Read the plan from this file, and the budgets from the files next to it
    #[arg(short, long, value_name = "FILE", default_value = "vmbell-gate.toml", help_heading = BUDGET)]
    pub(super) file: PathBuf,

    /// With --init, add a VMM by its command line, as `vmbell bench vmms --vmm` does; without --init, use this program
    /// or command, of any version, for a VMM of the plan
    #[arg(long, value_name = "NAME=COMMAND|PATH", value_parser = vmm, help_heading = SUBJECT)]
    pub(super) vmm: Vec<(String, String)>,

    /// With --init, check the VMMs on these kernels; without --init, measure only on these kernels of the plan
    /// [default: debian:6.12]
    #[arg(long, value_name = "debian:VERSION|FILE", value_parser = NonEmptyStringValueParser::new(), help_heading = SUBJECT)]
    pub(super) kernel: Vec<String>,

    /// With --init, check the VMMs on these CPUs, named as for `lab --cpu`; without --init, measure only on these CPUs of the
    /// plan [default: amd on x86-64]
    #[arg(long, value_name = "CPU,...", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new(), help_heading = SUBJECT)]
    pub(super) cpu: Vec<String>,

    /// Check only these rows, with --init [default: all]
    #[arg(long, value_name = "ROW,...", value_delimiter = ',', requires = "init", value_parser = row, help_heading = NEW)]
    pub(super) rows: Vec<String>,

    /// Give each VMM these virtio devices, with --init [default: rng,blk]
    #[arg(
        long,
        value_enum,
        value_name = "DEVICE,...",
        value_delimiter = ',',
        requires = "init", help_heading = NEW
    )]
    pub(super) virtio: Vec<VmmDeviceName>,

    /// Also check a boot of Linux in each VMM, with --init: its exits by reason and by address
    #[arg(long, requires = "init", help_heading = NEW)]
    pub(super) linux: bool,

    /// Boot each VMM N times, with --init [default: 5]
    #[arg(long, value_name = "N", requires = "init", value_parser = boots(), help_heading = NEW)]
    pub(super) boots: Option<u32>,

    /// Perturb the layouts with seeds from N upwards
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = MEASUREMENT)]
    pub(super) seed: u32,

    /// Boot N labs at a time [default: one for each CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = MEASUREMENT)]
    pub(super) jobs: Option<u32>,

    /// Print the verdict and all figures as JSON
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,

    /// Append the verdict to this file in Markdown
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) markdown: Option<PathBuf>,

    /// Keep the report of each boot in this folder
    #[arg(long, value_name = "FOLDER", help_heading = OUTPUT)]
    pub(super) keep: Option<PathBuf>,

    /// Print no progress
    #[arg(short, long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
}

/// Parses a number of boots, within the plan's limits.
fn boots() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*BOOTS.start())..=i64::from(*BOOTS.end()))
}

/// Parses `NAME=COMMAND`, which the lab checks further.
fn vmm(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && !command.is_empty() => {
            Ok((name.to_owned(), command.to_owned()))
        }
        _ => Err("not of the form NAME=COMMAND or NAME=PATH".to_owned()),
    }
}

#[cfg(test)]
#[path = "args_test.rs"]
pub(super) mod tests;
