//! How much time is left, for the progress bars of `bench`, `gate` and the lab.
//!
//! Steps take about the same time, so each step that is left is estimated as the mean of the finished ones. Until the
//! first step is finished, nothing is known and nothing is shown.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::style::ProgressTracker;
use indicatif::{HumanDuration, ProgressState};

/// An estimate of the time left, from the steps that were finished since the estimate began.
#[derive(Clone, Debug, Default)]
pub struct TimeLeft {
    /// When the estimate began, and how many steps were finished then.
    begun: Option<(Instant, u64)>,
    /// When the last step was finished, and how many there were then.
    last: Option<(Instant, u64)>,
    budget: Option<StepBudget>,
}

/// A time after which no further step begins.
#[derive(Clone, Copy, Debug)]
struct StepBudget {
    time: Duration,
    /// The number of steps that are done in any case.
    least: u64,
}

impl TimeLeft {
    /// After `time` no further step begins, except that `least` steps are done in any case.
    #[must_use]
    pub fn within(self, time: Duration, least: u64) -> Self {
        let budget = Some(StepBudget { time, least });
        Self { budget, ..self }
    }

    /// Notes that `done` steps are finished.
    fn see(&mut self, now: Instant, done: u64) {
        if self.begun.is_none() {
            self.begun = Some((now, done));
        }
        if self.last.is_none_or(|(_, before)| before != done) {
            self.last = Some((now, done));
        }
    }

    /// The time that is left at `now` if there are `all` steps; `None` if it is not known.
    fn left(&self, now: Instant, all: u64) -> Option<Duration> {
        let ((begun, first), (last, done)) = (self.begun?, self.last?);
        let finished = done.checked_sub(first).filter(|finished| *finished > 0)?;
        let mean = (last - begun).div_f64(finished as f64);
        let since = now - last;
        // A step that takes longer than the others may end at any time: only the steps after it can be estimated.
        let steps = |count: u64| {
            let others = mean.mul_f64(count.saturating_sub(1) as f64);
            others + mean.saturating_sub(since)
        };
        let left = match all.saturating_sub(done) {
            0 => return None,
            count => steps(count),
        };
        let left = match self.budget {
            None => left,
            Some(StepBudget { time, least }) => {
                let needed = match least.saturating_sub(done) {
                    0 => Duration::ZERO,
                    count => steps(count),
                };
                left.min(needed.max(time.saturating_sub(now - begun)))
            }
        };
        (left > Duration::ZERO).then_some(left)
    }
}

impl ProgressTracker for TimeLeft {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, state: &ProgressState, now: Instant) {
        self.see(now, state.pos());
    }

    fn reset(&mut self, _: &ProgressState, _: Instant) {
        (self.begun, self.last) = (None, None);
    }

    fn write(&self, state: &ProgressState, to: &mut dyn Write) {
        let left = state.len().and_then(|all| self.left(Instant::now(), all));
        if let Some(left) = left {
            // A bar has no place for a failure.
            let _ = write!(to, ", {:#} left", HumanDuration(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Steps that are finished at these seconds.
    fn after(mut left: TimeLeft, begun: Instant, finished: &[u64]) -> TimeLeft {
        left.see(begun, 0);
        for (place, at) in finished.iter().enumerate() {
            left.see(begun + seconds(*at), place as u64 + 1);
        }
        left
    }

    #[test]
    fn nothing_is_known_before_the_first_step_and_after_the_last() {
        let begun = Instant::now();
        let left = after(TimeLeft::default(), begun, &[]);
        assert_eq!(left.left(begun + seconds(300), 10), None);
        let left = after(TimeLeft::default(), begun, &[60, 120]);
        assert_eq!(left.left(begun + seconds(120), 2), None);
    }

    #[test]
    fn each_step_that_is_left_takes_the_mean_and_the_time_runs_down_between_steps() {
        let begun = Instant::now();
        let left = after(TimeLeft::default(), begun, &[60, 120]);
        let at = |second| left.left(begun + seconds(second), 5);
        assert_eq!(at(120), Some(seconds(180)));
        assert_eq!(at(150), Some(seconds(150)));
        // The third step is late: the two after it are left.
        assert_eq!(at(500), Some(seconds(120)));
        // If the last step is late, there is no estimate, instead of 0 seconds.
        assert_eq!(left.left(begun + seconds(500), 3), None);
    }

    #[test]
    fn steps_before_the_estimate_began_do_not_count() {
        let begun = Instant::now();
        let mut left = TimeLeft::default();
        left.see(begun, 40);
        assert_eq!(left.left(begun, 50), None);
        left.see(begun + seconds(2), 41);
        assert_eq!(left.left(begun + seconds(2), 50), Some(seconds(18)));
    }

    /// 50 rounds of a row would take 50 s, and 12 s is all that the bench takes.
    #[test]
    fn a_budget_ends_the_steps_early_but_not_the_least_number() {
        let begun = Instant::now();
        let steps = [1, 2, 3];
        let left = after(TimeLeft::default().within(seconds(12), 2), begun, &steps);
        assert_eq!(left.left(begun + seconds(3), 50), Some(seconds(9)));
        let left = after(TimeLeft::default().within(seconds(12), 20), begun, &steps);
        assert_eq!(left.left(begun + seconds(3), 50), Some(seconds(17)));
        let left = after(TimeLeft::default().within(seconds(12), 20), begun, &steps);
        assert_eq!(left.left(begun + seconds(3), 5), Some(seconds(2)));
    }
}
