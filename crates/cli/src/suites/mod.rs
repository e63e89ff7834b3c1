//! `vmbell bench [SUITE or NAME...]`: the suites of measurements. Each is a subcommand of `bench`; without one, the
//! arguments are those of the suite `paths`.
//!
//! `paths`, `rings` and `eoi` measure guests of this process, on the thread of `supervise`. `vmms` and `net` boot other
//! programs' guests with `boots`, and count their exits with `kvm_trace`. `measure_args` has the options of all suites,
//! `measured` what all reports have.

mod boots;
mod eoi;
mod kvm_trace;
mod measure_args;
pub(crate) mod measured;
mod name;
pub(crate) mod net;
pub(crate) mod paths;
pub(crate) mod rings;
mod supervise;
mod time_unit;
pub(crate) mod vmms;

use anyhow::Result;
use clap::{Args, Command, Subcommand};

use self::eoi::EoiArgs;
pub(super) use self::name::SuiteName;
use self::net::NetSuiteArgs;
use self::paths::args::PathsArgs;
use self::rings::RingsArgs;
use self::vmms::VmmsArgs;
use super::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  vmbell bench                  measure a short selection of paths
  vmbell bench --all            measure every path and every floor
  vmbell bench eoi -z           count exits of interrupts, PV EOI off and on
  vmbell bench vmms             measure QEMU and other VMMs with the same guest
  vmbell bench net              measure Linux's network driver in a guest
  vmbell lab -- vmbell bench --all
      measure on a machine without /dev/kvm
  vmbell bench 'portio-*' --export-json -
      measure some paths, and print the report as JSON
  vmbell bench '*-datamatch-*' --doorbells 1,1000
      show how the cost grows with the number of doorbells
  vmbell bench mmio-no-eventfd --spin spin
      run the device model on a spinning core
  vmbell bench rings --event-idx --no-event-idx
      show what event indices save on a virtqueue
";

/// Measure the cost of notifications between a guest and its host
///
/// Without SUITE, measure the notification paths of this host (the suite `paths`): a short selection, or the named
/// rows. `vmbell bench SUITE --help` describes a suite.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_value_name = "SUITE", subcommand_help_heading = "Suites")]
pub(super) struct SuiteArgs {
    #[command(subcommand)]
    pub(super) suite: Option<BenchSuite>,

    #[command(flatten)]
    paths: PathsArgs,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(super) enum BenchSuite {
    #[command(after_help = EXAMPLES)]
    Paths(PathsArgs),
    Rings(RingsArgs),
    Eoi(EoiArgs),
    Vmms(VmmsArgs),
    Net(NetSuiteArgs),
}

impl From<SuiteArgs> for BenchSuite {
    fn from(args: SuiteArgs) -> Self {
        args.suite.unwrap_or(Self::Paths(args.paths))
    }
}

impl BenchSuite {
    /// Fails if the arguments are wrong on every host of this architecture. Measures nothing.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Paths(args) => paths::check(args),
            Self::Rings(args) => rings::check(args),
            Self::Vmms(args) => vmms::check(args),
            Self::Eoi(_) | Self::Net(_) => Ok(()),
        }
    }

    /// Measures the suite. `program` parses the arguments of this process.
    pub(super) fn run(self, program: &Command) -> Result<Exit> {
        match self {
            Self::Paths(args) => paths::run(args, program),
            Self::Rings(args) => rings::run(&args),
            Self::Eoi(args) => eoi::run(&args),
            Self::Vmms(args) => vmms::run(&args),
            Self::Net(args) => net::run(&args),
        }
    }
}
