//! How much to measure.

use std::time::Duration;

/// How often, how long and in which order subjects run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Measured runs of each subject, at least 1.
    pub runs: u32,
    /// Rounds before them that are not kept.
    pub warmup: u32,
    /// Unless `ops` says it, operations per run are chosen so that a run takes about this long.
    pub min_time: Duration,
    /// Operations per run, whatever time they take.
    pub ops: Option<u64>,
    /// Unless `ops` says it, all subjects have the same number of operations, at least the one and at
    /// most the other of these: a power of two at which none takes longer than `min_time`, so that
    /// the next command on this host finds the same.
    pub same_ops: Option<(u64, u64)>,
    /// Whether the kernel's events are counted ([`perf`](crate::perf)).
    pub events: bool,
    /// When this is used up, no further round begins once there are [`MIN_RUNS`](Self::MIN_RUNS):
    /// so that a slow host takes fewer samples and not more of the user's time.
    pub budget: Option<Duration>,
    /// Decides the order within each round, and the resampling of confidence intervals.
    pub seed: u64,
}

impl Plan {
    /// Fewer runs than this have no spread worth the name.
    pub const MIN_RUNS: u32 = 10;

    /// For where time is emulated: enough operations to make what surrounds them small, and enough
    /// runs to see whether they differ. No clock has a say in it.
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
