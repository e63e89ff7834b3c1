//! `vmbell bench [SUITE or NAME...]`: the suites of measurements, each a subcommand of `bench`; without one, the arguments
//! are those of the suite `paths`.

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use super::bench_args::BenchArgs;
use super::exit::Exit;
use super::net::NetArgs;
use super::stat::StatArgs;
use super::virtqueue::VirtqueueArgs;
use super::vmm::VmmArgs;
use super::{bench, net, stat, virtqueue, vmm};

const EXAMPLES: &str = "\
Examples:
  vmbell bench                                  measure a short selection of paths
  vmbell bench --all                            measure every path and every floor
  vmbell bench 'portio-*' --export-json -       measure some paths, and print the report as JSON
  vmbell bench '*-datamatch-*' --doorbells 1,1000
                                                show how the cost grows with the number of doorbells
  vmbell bench mmio-no-eventfd --spin spin      run the device model on a spinning core
  vmbell bench rings --event-idx --no-event-idx
                                                show what event indices save on a virtqueue
  vmbell bench eoi -z                           count exits of interrupts, with PV EOI off and on
  vmbell bench vmms                             measure QEMU and other VMMs with the same guest
  vmbell bench net                              measure Linux's network driver in a guest
  vmbell lab -- vmbell bench --all              measure on a machine without /dev/kvm
";

/// Measure the cost of notifications between a guest and its host
///
/// Without SUITE, measure the notification paths of this host (the suite `paths`): a short selection, or the named rows.
/// `vmbell bench SUITE --help` describes a suite.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_value_name = "SUITE", subcommand_help_heading = "Suites")]
pub(super) struct SuiteArgs {
    #[command(subcommand)]
    pub(super) suite: Option<Suite>,

    #[command(flatten)]
    paths: BenchArgs,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(super) enum Suite {
    Paths(BenchArgs),
    Rings(VirtqueueArgs),
    Eoi(StatArgs),
    Vmms(VmmArgs),
    Net(NetArgs),
}

/// A suite by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SuiteName {
    /// Doorbells and interrupts of this host's backends, and floors
    Paths,
    /// Virtqueues
    Rings,
    /// Events of interrupts, with PV EOI off and on
    Eoi,
    /// VMMs
    Vmms,
    /// Linux's network driver in a guest
    Net,
}

impl From<SuiteArgs> for Suite {
    fn from(args: SuiteArgs) -> Self {
        args.suite.unwrap_or(Self::Paths(args.paths))
    }
}

impl Suite {
    /// Fails if the arguments are wrong in a way that another host of this architecture can tell, without measuring anything.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Paths(args) => bench::check(args),
            Self::Rings(args) => virtqueue::check(args),
            Self::Vmms(args) => vmm::check(args),
            Self::Eoi(_) | Self::Net(_) => Ok(()),
        }
    }

    /// Measures it.
    pub(super) fn run(self) -> Result<Exit> {
        match self {
            Self::Paths(args) => bench::run(args),
            Self::Rings(args) => virtqueue::run(&args),
            Self::Eoi(args) => stat::run(&args),
            Self::Vmms(args) => vmm::run(&args),
            Self::Net(args) => net::run(&args),
        }
    }
}
