//! The arguments of `vmbell bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::interleave::args::BeforeArgs;
use crate::args::values;
use crate::args::{MEASUREMENT, OUTPUT, SUBJECT};
use crate::backends::BackendName;
use crate::suites::measure_args::MeasureArgs;
use vmbell_bench::scenario::MOST_DOORBELLS;
use vmbell_hypervisor::SpinPolicy;

/// Measure notification paths: doorbells and interrupts on each backend, and this host's floors
///
/// Rows are measured in turns, so that changes on the host affect all of them. A device-model row is the cost of a
/// notification without an eventfd; a floor is the cost of a system call or a wake-up alone on this host.
#[derive(Args, Debug)]
pub(crate) struct PathsArgs {
    /// Measure these rows: names of `vmbell list`, or globs such as 'portio-*' [default: a short selection]
    ///
    /// The device-model row that a row is compared with and the floors are also measured.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Measure every row, including those of an assigned device if this host has it
    #[arg(short, long, conflicts_with = "names", help_heading = SUBJECT)]
    pub(crate) all: bool,

    /// Measure the named rows only, without the rows that they are compared with
    #[arg(long, requires = "names", help_heading = SUBJECT)]
    pub(crate) only: bool,

    /// Measure each doorbell with N others registered, once for each N, such as 1,10,100,1000; at most 4096
    ///
    /// The others have other addresses. If the doorbell has a datamatch, half of them have its address and other values.
    /// A registration is measured with N others, doorbells or irqfds.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_DOORBELLS)), help_heading = SUBJECT)]
    pub(crate) doorbells: Vec<u32>,

    /// Measure each doorbell while N vCPUs write to it, once for each N, such as 1,2; at most 64
    ///
    /// An interrupt to all other vCPUs is measured with N vCPUs.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64), help_heading = SUBJECT)]
    pub(crate) vcpus: Vec<u32>,

    /// Compare all rows with this one instead of the device-model row of their kind
    #[arg(long, value_name = "NAME", help_heading = SUBJECT)]
    pub(crate) reference: Option<String>,

    /// Measure each row in N runs [default: 10 to 50, as many as fit into 12 s, or 40 s with --all or names; 3 in the
    /// lab]
    #[arg(short, long, value_name = "N", value_parser = values::positive::<u32>, help_heading = MEASUREMENT)]
    pub(crate) runs: Option<u32>,

    /// Discard the first N runs of each row
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = MEASUREMENT)]
    pub(crate) warmup: u32,

    /// Choose the number of operations so that a run takes at least this time [default: 15ms]
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration, help_heading = MEASUREMENT)]
    pub(crate) min_time: Option<Duration>,

    /// Run exactly N operations in one run; fewer in a row that pauses between them [default in the lab: 2000, or as
    /// many as take 200ms]
    #[arg(long, value_name = "N", conflicts_with = "min_time", value_parser = clap::value_parser!(u64).range(1..), help_heading = MEASUREMENT)]
    pub(crate) ops: Option<u64>,

    /// Give up a row if one of its runs takes longer than this, and go on with the others; 0 is no limit [default: 10s,
    /// or 20 times --min-time if that is longer; 60s in the lab]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = MEASUREMENT)]
    pub(crate) run_timeout: Option<Duration>,

    /// Choose how guest and VMM wait for each other at an exit; only for backends where they are two processes
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = SpinPolicyName::OneCpu, help_heading = MEASUREMENT)]
    pub(crate) spin: SpinPolicyName,

    /// Run guests on these backends, separated by commas [default: every backend that works here]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', help_heading = MEASUREMENT)]
    pub(crate) backend: Vec<BackendName>,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Sort the rows
    #[arg(long, value_enum, default_value_t = Sort::Auto, help_heading = OUTPUT)]
    pub(crate) sort: Sort,

    // This must be the last one, because its heading applies to all options after it.
    #[command(flatten)]
    pub(crate) before: BeforeArgs,
}

/// A spin policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpinPolicyName {
    /// Sleep at once, on one CPU while exits are frequent, so that a wake-up is a context switch
    OneCpu,
    /// Sleep at once, each where the scheduler places it: two wake-ups per exit, mostly of another CPU
    Sleep,
    /// Poll: exits are cheaper, but a core is always busy
    Spin,
    /// Poll for a short time if the other side runs on another CPU, then sleep
    Adaptive,
}

impl From<SpinPolicyName> for SpinPolicy {
    fn from(policy: SpinPolicyName) -> Self {
        match policy {
            SpinPolicyName::OneCpu => Self::OneCpu,
            SpinPolicyName::Sleep => Self::Sleep,
            SpinPolicyName::Spin => Self::Spin,
            SpinPolicyName::Adaptive => Self::Adaptive,
        }
    }
}

/// An order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// In the order of `vmbell list`
    Auto,
    /// In the order of `vmbell list`
    Command,
    /// Fastest first
    Median,
}
