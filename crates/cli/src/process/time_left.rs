//! The time that a program may still run. Time that passes while this process does not run hardly counts: whatever
//! stopped this process, such as the freezer of its control group, has probably stopped the program too.

use std::time::{Duration, Instant};

/// The maximum time that is counted between two looks at the clock. The looks are a twentieth of a second apart, longer
/// on a busy host.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// The time that a program may still run.
#[derive(Debug)]
pub(crate) struct TimeLeft {
    left: Duration,
    looked: Instant,
}

impl TimeLeft {
    /// Starts to count down `left`.
    pub(crate) fn new(left: Duration) -> Self {
        Self {
            left,
            looked: Instant::now(),
        }
    }

    /// What is left after the time since the last look.
    pub(super) fn look(&mut self) -> Duration {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.looked);
        self.looked = now;
        self.left = self.left.saturating_sub(passed.min(LONGEST_LOOK));
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_in_which_nothing_ran_counts_as_one_long_look() {
        let mut time = TimeLeft::new(Duration::from_secs(10));
        let mut now = time.looked;
        let mut after = |passed: Duration| {
            now += passed;
            time.look_at(now)
        };
        assert_eq!(
            after(Duration::from_millis(50)),
            Duration::from_millis(9950)
        );
        assert_eq!(
            after(Duration::from_secs(3600)),
            Duration::from_millis(8950)
        );
        for _ in 0..8 {
            assert!(!after(LONGEST_LOOK).is_zero());
        }
        assert_eq!(after(LONGEST_LOOK), Duration::ZERO);
        assert_eq!(after(Duration::ZERO), Duration::ZERO);
    }
}
