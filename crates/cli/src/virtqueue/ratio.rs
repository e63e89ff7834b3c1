//! What each variant costs beside the first, and how sure that is.

use super::measure::{Results, Run, Session};
use vmbell_bench::perf::Event;
use vmbell_report::bootstrap::{Interval, ratio_of_medians};

/// A ratio of two variants, new over old.
#[derive(Debug)]
pub(super) struct Ratio<'a> {
    pub(super) new: &'a str,
    pub(super) old: &'a str,
    /// What of: `time` or an event.
    pub(super) of: &'static str,
    pub(super) interval: Interval,
}

/// Every variant but the first to the first, in time and, where counted, in CPU time and instructions.
pub(super) fn ratios<'a>(session: &'a Session, results: &Results) -> Vec<Ratio<'a>> {
    let (Some(old), Some(old_runs)) = (session.variants.first(), results.runs.first()) else {
        return Vec::new();
    };
    let mut ratios = Vec::new();
    for (new, new_runs) in session.variants.iter().zip(&results.runs).skip(1) {
        let mut push = |of, new_values: Option<Vec<f64>>, old_values: Option<Vec<f64>>| {
            let values = new_values.zip(old_values);
            let interval = values.and_then(|(n, o)| ratio_of_medians(&n, &o, session.seed));
            ratios.extend(interval.map(|interval| Ratio {
                new: &new.name,
                old: &old.name,
                of,
                interval,
            }));
        };
        push("time", Some(seconds(new_runs)), Some(seconds(old_runs)));
        // What the two sides used: less than the time tells of whoever else is on the host.
        for event in [Event::TaskClock, Event::Instructions] {
            push(
                event.name(),
                counts(new_runs, event),
                counts(old_runs, event),
            );
        }
    }
    ratios
}

/// The time of each run.
pub(super) fn seconds(runs: &[Run]) -> Vec<f64> {
    runs.iter()
        .map(|run| run.tally.time.as_secs_f64())
        .collect()
}

/// What each run counted of `event`; none if the host does not count it.
pub(super) fn counts(runs: &[Run], event: Event) -> Option<Vec<f64>> {
    let place = Event::ALL.iter().position(|other| *other == event)?;
    runs.iter()
        .map(|run| run.events.get(place).copied().flatten())
        .collect()
}
