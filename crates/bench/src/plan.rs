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
            budget: Some(Duration::from_secs(40)),
            seed: 0,
        }
    }
}
