//! The arguments of `vmbell bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::exports::ExportArgs;
use super::interleave::args::BeforeArgs;
use super::style::Style;
use super::time_unit::TimeUnit;
use super::values::{self, CpuList};
use vmbell_bench::scenario::MOST_DOORBELLS;
use vmbell_hypervisor::SpinPolicy;

/// Measure what it costs to ring: scenarios side by side, and the host's own floors
#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// What to measure: names of `vmbell list`, or globs such as 'portio-*'; without any, the rows that
    /// answer the first questions about a host
    ///
    /// A scenario brings along the device model row that it is compared with, and the floors.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,

    /// Measure every row; those of an assigned device where this host has it
    #[arg(short, long, conflicts_with = "names")]
    pub(super) all: bool,

    /// Measure nothing but what is named
    #[arg(long, requires = "names")]
    pub(super) only: bool,

    /// Measure each doorbell several times, with so many others registered beside it: at other addresses, and
    /// at its own for other values; for example 1,10,100,1000, and 4096 at most
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_DOORBELLS)))]
    pub(super) doorbells: Vec<u32>,

    /// Measure each doorbell several times, rung by so many vCPUs at the same time; for example 1,2, and 64
    /// at most
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) vcpus: Vec<u32>,

    /// Take all ratios to this entry, instead of to the device model of each kind
    #[arg(long, value_name = "NAME")]
    pub(super) reference: Option<String>,

    /// Measured runs of each entry; by default 50, or as many as end within 12 s (40 s with --all or
    /// names), but 10 at least; in the lab 3
    #[arg(short, long, value_name = "N", value_parser = values::runs)]
    pub(super) runs: Option<u32>,

    /// Rounds before them that are not kept
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(super) warmup: u32,

    /// How long one run takes at least; the number of operations follows from it [default: 15ms]
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    pub(super) min_time: Option<Duration>,

    /// How many operations one run has, whatever time they take [default in the lab: 2000]
    #[arg(long, value_name = "N", conflicts_with = "min_time", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) ops: Option<u64>,

    /// Stop after this time, write what is finished and exit with 124; 0 for no limit
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::duration)]
    pub(super) timeout: Duration,

    /// Give a row up when one run of it takes longer than this, and go on with the others; 0 for no
    /// limit [default: 10s, or 20 times --min-time if that is more; in the lab 60s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(super) run_timeout: Option<Duration>,

    /// CPUs to pin to, e.g. 0,2: the guest to the first, its VMM and whoever waits to the second
    #[arg(short = 'C', long, value_name = "LIST", value_parser = values::cpus)]
    pub(super) cpu: Option<CpuList>,

    /// How the two sides of a heavy exit wait for each other
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Policy::Sleep)]
    pub(super) spin: Policy,

    /// What runs the guests, one or several with commas; without it, every backend that can run here
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(super) backend: Vec<BackendName>,

    /// Repeat the order of an earlier run, by the seed in its report
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u32>,

    #[command(flatten)]
    pub(super) before: BeforeArgs,

    #[command(flatten)]
    pub(super) exports: ExportArgs,

    /// How the report looks on the terminal
    #[arg(long, value_enum, default_value_t = Style::Auto)]
    pub(super) style: Style,

    /// The unit of all times on the terminal and in Markdown; without it, the one that fits each
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(super) time_unit: Option<TimeUnit>,

    /// In which order rows stand
    #[arg(long, value_enum, default_value_t = Sort::Auto)]
    pub(super) sort: Sort,

    /// Do not say what to doubt about the numbers
    #[arg(long)]
    pub(super) no_warnings: bool,

    /// No progress and no warnings
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    /// More columns: mean, extremes and CPU time per operation
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// A spin policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Policy {
    /// Sleep at once: no core is burnt, two wake-ups an exit
    Sleep,
    /// Watch the other side: cheap exits, paid with a spare core
    Spin,
    /// Watch for a short while if the other side runs on another CPU, else sleep
    Adaptive,
}

impl From<Policy> for SpinPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Sleep => Self::Sleep,
            Policy::Spin => Self::Spin,
            Policy::Adaptive => Self::Adaptive,
        }
    }
}

/// A backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendName {
    /// The best one that this host offers; the report says which and why
    Auto,
    /// The kernel's own, by /dev/kvm
    Kvm,
    /// Guest code in a sandboxed process, without /dev/kvm
    Usermode,
}

/// An order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// As `vmbell list` has them
    Auto,
    /// The same
    Command,
    /// The fastest first
    #[value(alias = "mean-time")]
    Median,
}
