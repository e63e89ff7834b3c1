//! The arguments of `vmbell bench rings`.

use clap::Args;

use super::super::values::{self, CpuList};
use vmbell_bench::workload::{Batch, Threads};

/// The heading of the switches that make variants.
pub(crate) const VARIANTS: &str = "Variants";

const EXAMPLES: &str = "\
Give a switch and its opposite to measure both in turns, with the ratio of on to off. Without such a
pair, the three ways to poll are compared.

Examples:
  vmbell bench rings                                    compare the three ways to poll
  vmbell bench rings --packed --one-thread              the same on a packed ring, without wake-ups
  vmbell bench rings --event-idx --no-event-idx         show what event indices save
  vmbell bench rings --split --packed --batch random    compare the two formats of a ring
  vmbell bench rings --reset=1000 --wrap-counters       reset under load; one variant, no ratio
  vmbell bench rings --json | jq '.results[].counts'    print kicks and calls of every run

Options of one group, on the same line, are opposites. Names are those of Linux's virtio_test.
";

/// Measure virtqueues: a driver and a device that wake each other, as Linux's virtio_test
///
/// The work is a fixed number of buffers of 1024 bytes; each is offered by a driver thread and given
/// back by a device thread, both of which sleep on an eventfd when there is nothing to do.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VirtqueueArgs {
    /// A split ring (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) split: bool,
    /// A packed ring
    #[arg(long, help_heading = VARIANTS)]
    pub(super) packed: bool,

    /// Ask for notifications by position, VIRTIO_F_EVENT_IDX (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) event_idx: bool,
    /// Switch notifications on and off by a flag
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_event_idx: bool,

    /// Buffers of several pieces in a table of their own, VIRTIO_F_INDIRECT_DESC (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) indirect: bool,
    /// Buffers of several pieces as a chain in the ring
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_indirect: bool,

    /// The layout of version 1, VIRTIO_F_VERSION_1 (the default)
    #[arg(long = "virtio-1", help_heading = VARIANTS)]
    pub(super) virtio_1: bool,
    /// A split ring as legacy devices have it, its used part on a page of its own
    #[arg(long = "no-virtio-1", help_heading = VARIANTS)]
    pub(super) no_virtio_1: bool,

    /// Be called after three quarters of what is in flight
    #[arg(long, help_heading = VARIANTS)]
    pub(super) delayed_interrupt: bool,
    /// Be called after the next buffer (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_delayed_interrupt: bool,

    /// Poll with 32 bits that count wraps
    #[arg(long, help_heading = VARIANTS)]
    pub(super) wrap_counters: bool,
    /// Poll with 32 bits that do not
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_wrap_counters: bool,
    /// Poll with 64 bits, which nothing deceives
    #[arg(long, help_heading = VARIANTS)]
    pub(super) wide_tokens: bool,

    /// Buffers in flight: a number, or `random` for 1 to the size of the ring, drawn each time
    #[arg(long, value_name = "N|random", default_value = "1", value_parser = batch, help_heading = "Work")]
    pub(super) batch: Batch,
    /// Empty the queue and start it again after every N buffers [default of N: 1]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = values::positive, help_heading = "Work")]
    pub(super) reset: Option<u64>,
    /// Descriptors of the ring
    #[arg(long, value_name = "N", default_value = "256", help_heading = "Work")]
    pub(super) ring_size: u16,
    /// Pieces that each buffer is in
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    pub(super) pieces: u16,
    /// Buffers of one run [default: what fits in half a second, up to the 1048576 of virtio_test]
    #[arg(long, value_name = "N", value_parser = values::positive, help_heading = "Work")]
    pub(super) bufs: Option<u64>,
    /// Both sides in turns on one thread: nobody sleeps, and runs differ by their code alone
    #[arg(long, help_heading = "Work")]
    pub(super) one_thread: bool,

    /// Runs of each variant
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = values::runs)]
    pub(super) repeat: u32,
    /// CPUs to pin to, e.g. 0,2: the driver to the first, the device to the second
    #[arg(short = 'C', long, value_name = "LIST", value_parser = values::cpus)]
    pub(super) cpu: Option<CpuList>,
    /// Repeat the order of an earlier command
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u32>,
    /// Print the report of `vmbell bench` as JSON, every run included
    #[arg(long)]
    pub(super) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl VirtqueueArgs {
    pub(super) fn threads(&self) -> Threads {
        if self.one_thread {
            Threads::One
        } else {
            Threads::Two
        }
    }
}

fn batch(text: &str) -> Result<Batch, String> {
    if text == "random" {
        return Ok(Batch::Random);
    }
    match text.parse() {
        Ok(0) => Err("a batch of 0 buffers never ends".to_owned()),
        Ok(batch) => Ok(Batch::Fixed(batch)),
        Err(_) => Err("a number up to 65535 or `random` is wanted".to_owned()),
    }
}
