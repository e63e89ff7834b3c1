//! The arguments of `vmbell bench rings`.

use clap::Args;

use super::super::measure_args::MeasureArgs;
use crate::args::MEASUREMENT;
use crate::args::values;
use vmbell_bench::workload::{Batch, Threads};

/// The heading of the switches that select variants.
pub(crate) const VARIANTS: &str = "Variants";

const EXAMPLES: &str = "\
Examples:
  vmbell bench rings
      compare the three ways to poll
  vmbell bench rings --packed --one-thread
      compare them on a packed ring, without wake-ups
  vmbell bench rings --event-idx --no-event-idx
      show what event indices save
  vmbell bench rings --split --packed --batch random
      compare the two ring formats
  vmbell bench rings --reset=1000 --wrap-counters
      reset the queue under load; one variant, no ratio
  vmbell bench rings --export-json - --style none | jq '.results[].counts'
      print kicks and calls of every run
";

/// Measure virtqueues: a driver and a device that notify each other, as Linux's virtio_test does
///
/// A driver thread offers a fixed number of buffers of 1024 bytes, and a device thread returns them. Both sleep on an
/// eventfd when the ring is empty.
///
/// Give a switch and its opposite to measure both in turns, with the ratio of on to off. Without such a pair, the three
/// ways to poll are compared. Opposites are --split and --packed, each switch and its --no form, and the three ways to
/// poll: --wrap-counters, --no-wrap-counters and --wide-tokens. The names are those of Linux's virtio_test.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RingsArgs {
    /// Use a split ring (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) split: bool,
    /// Use a packed ring
    #[arg(long, help_heading = VARIANTS)]
    pub(super) packed: bool,

    /// Ask for notifications by position, VIRTIO_F_EVENT_IDX (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) event_idx: bool,
    /// Switch notifications on and off by a flag
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_event_idx: bool,

    /// Put the pieces of a buffer into an indirect table, VIRTIO_F_INDIRECT_DESC (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) indirect: bool,
    /// Put the pieces of a buffer into the ring as a chain
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_indirect: bool,

    /// Use the layout of version 1, VIRTIO_F_VERSION_1 (the default)
    #[arg(long = "virtio-1", help_heading = VARIANTS)]
    pub(super) virtio_1: bool,
    /// Use the split ring of legacy devices, whose used ring begins on a page boundary
    #[arg(long = "no-virtio-1", help_heading = VARIANTS)]
    pub(super) no_virtio_1: bool,

    /// Interrupt after 3/4 of the buffers in flight
    #[arg(long, help_heading = VARIANTS)]
    pub(super) delayed_interrupt: bool,
    /// Interrupt after the next buffer (the default)
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_delayed_interrupt: bool,

    /// Poll with 32-bit tokens that count wraps
    #[arg(long, help_heading = VARIANTS)]
    pub(super) wrap_counters: bool,
    /// Poll with 32-bit tokens that do not count wraps
    #[arg(long, help_heading = VARIANTS)]
    pub(super) no_wrap_counters: bool,
    /// Poll with ABA-safe 64-bit tokens
    #[arg(long, help_heading = VARIANTS)]
    pub(super) wide_tokens: bool,

    /// Keep N buffers in flight, or a new random number each time, up to the size of the ring
    #[arg(long, value_name = "N|random", default_value = "1", value_parser = batch, help_heading = "Work")]
    pub(super) batch: Batch,
    /// Reset the queue after every N buffers [default of N: 1]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = values::positive::<u64>, help_heading = "Work")]
    pub(super) reset: Option<u64>,
    /// Use a ring of N descriptors
    #[arg(long, value_name = "N", default_value = "256", help_heading = "Work")]
    pub(super) ring_size: u16,
    /// Divide each buffer into N pieces
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    pub(super) pieces: u16,
    /// Process N buffers in a run [default: as many as take half a second, at most virtio_test's 1048576]
    #[arg(long, value_name = "N", value_parser = values::positive::<u64>, help_heading = "Work")]
    pub(super) bufs: Option<u64>,
    /// Run both sides in turns on one thread, without sleeping
    #[arg(long, help_heading = "Work")]
    pub(super) one_thread: bool,

    /// Measure each variant in N runs
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = values::positive::<u32>, help_heading = MEASUREMENT)]
    pub(super) runs: u32,
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
}

impl RingsArgs {
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
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(batch) => Ok(Batch::Fixed(batch)),
        Err(_) => Err("expected a number up to 65535, or `random`".to_owned()),
    }
}
