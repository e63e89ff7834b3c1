//! The plan of a measurement: how much to measure.

use std::time::Duration;

/// How often, how long and in which order subjects run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchPlan {
    /// Measured runs of each subject, at least 1.
    pub runs: u32,
    /// Warm-up rounds before the measured ones; their samples are thrown away.
    pub warmup: u32,
    /// The time that one run should take; it determines the operations of a run unless `ops` is given.
    pub min_time: Duration,
    /// Operations of each run, unless `most_time` limits them; fewer for an entry that rests before each operation.
    pub ops: Option<u64>,
    /// The time that a run may take: if `ops` operations take longer, a run has fewer of them, but at least ten. Where
    /// the only clock counts instructions, nothing else affects the number of operations.
    pub most_time: Option<Duration>,
    /// The minimum and the maximum number of operations of a run, if all subjects are to have the same number and `ops`
    /// is not given. The number is a power of two at which no run takes much longer than `min_time`, so that the next
    /// command on this host finds the same number.
    pub same_ops: Option<(u64, u64)>,
    /// Whether kernel events are counted ([`perf`](crate::perf)).
    pub events: bool,
    /// When this time is used up and [`MIN_RUNS`](Self::MIN_RUNS) rounds are done, no further round begins: a slow host
    /// takes fewer samples instead of more of the user's time.
    pub budget: Option<Duration>,
    /// The seed of the random order within each round and of the bootstrap.
    pub seed: u64,
}

impl BenchPlan {
    /// With fewer runs than this, the spread means little.
    pub const MIN_RUNS: u32 = 10;

    /// How long a run may take where time is emulated.
    pub const COUNTED_RUN: Duration = Duration::from_millis(200);

    /// The plan where time is emulated: enough operations to make their surroundings negligible, and enough runs to see
    /// whether they differ. A thread that spins until another one has run costs a time slice of several milliseconds
    /// there, so slow entries have fewer operations.
    pub const fn counted() -> Self {
        Self {
            runs: 3,
            warmup: 1,
            min_time: Duration::ZERO,
            ops: Some(2000),
            most_time: Some(Self::COUNTED_RUN),
            same_ops: None,
            events: false,
            budget: None,
            seed: 1,
        }
    }
}

impl Default for BenchPlan {
    fn default() -> Self {
        Self {
            runs: 50,
            warmup: 1,
            min_time: Duration::from_millis(15),
            ops: None,
            most_time: None,
            same_ops: None,
            events: false,
            budget: Some(Duration::from_secs(40)),
            seed: 0,
        }
    }
}
