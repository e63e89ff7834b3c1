//! The plan of a measurement: how much to measure.

use std::time::Duration;

/// How often, how long and in which order subjects run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Measured runs of each subject, at least 1.
    pub runs: u32,
    /// Warm-up rounds before the measured ones; their samples are thrown away.
    pub warmup: u32,
    /// The time that one run should take; it determines the operations of a run unless `ops` is given.
    pub min_time: Duration,
    /// Operations of each run, however long they take; fewer for an entry that rests before each of them.
    pub ops: Option<u64>,
    /// The least and the most operations of a run, if all subjects are to have the same number and
    /// `ops` is not given. The number is a power of two at which no run takes much longer than
    /// `min_time`, so that the next command on this host finds the same one.
    pub same_ops: Option<(u64, u64)>,
    /// Whether the kernel's events are counted ([`perf`](crate::perf)).
    pub events: bool,
    /// When this time is used up and [`MIN_RUNS`](Self::MIN_RUNS) rounds are done, no further round
    /// begins: a slow host takes fewer samples and not more of the user's time.
    pub budget: Option<Duration>,
    /// The seed of the random order within each round and of the bootstrap.
    pub seed: u64,
}

impl Plan {
    /// Fewer runs than this say too little about the spread.
    pub const MIN_RUNS: u32 = 10;

    /// The plan where time is emulated: enough operations to make what surrounds them small, and enough
    /// runs to see whether they differ. It depends on no clock.
    pub const fn counted() -> Self {
        Self {
            runs: 3,
            warmup: 1,
            min_time: Duration::ZERO,
            ops: Some(2000),
            same_ops: None,
            events: false,
            budget: None,
            seed: 1,
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            runs: 50,
            warmup: 1,
            min_time: Duration::from_millis(15),
            ops: None,
            same_ops: None,
            events: false,
            budget: Some(Duration::from_secs(40)),
            seed: 0,
        }
    }
}
