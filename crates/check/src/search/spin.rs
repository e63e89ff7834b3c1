//! Tasks that spin. They repeat the same reads, so an exploration of all repetitions would never end.

use super::{Search, State, Stop};
use crate::graph::{Id, Span};

/// How many times a task repeats the same reads until it counts as spinning.
const REPEATS: usize = 6;
/// The longest series of reads whose repetition is detected.
const PERIOD: usize = 6;

impl Search {
    /// Stops a task that repeats the same reads until it could read something newer. If it already could, stops it for
    /// good.
    pub(super) fn spin(&mut self) -> Result<(), Stop> {
        let reads = &self.tasks[self.current].reads;
        for period in 1..=PERIOD {
            if self.repeats(reads, period, REPEATS) {
                let tail = &reads[reads.len() - period..];
                if !tail.iter().any(|&read| self.is_stale(read)) {
                    self.tasks[self.current].state = State::Spins(tail.to_vec());
                    return Err(Stop::Blocked);
                }
                // The task may read the old value once more, but no fair execution does so forever.
                if self.repeats(reads, period, REPEATS + 1) {
                    self.dropped = true;
                    return Err(Stop::Ended);
                }
            }
        }
        Ok(())
    }

    /// Stops a task that waits for a lock on data: it loads a value that its compare-exchange has just found changed.
    /// Executions in which it checks repeatedly do not differ from those in which it checks when the lock is free.
    pub(super) fn lock(&mut self, span: Span) -> Result<(), Stop> {
        let last = self.graph.tasks[self.current].last();
        let Some(&last) = last.filter(|_| self.in_order) else {
            return Ok(());
        };
        let event = self.graph.event(last);
        if event.compare.is_none() || event.span != span {
            return Ok(());
        }
        self.tasks[self.current].state = State::Locked(last);
        Err(Stop::Blocked)
    }

    /// Returns whether the current task repeats the same reads. A replay decides the same, as it has the same reads.
    pub(super) fn repeats_reads(&self) -> bool {
        let reads = &self.tasks[self.current].reads;
        (1..=PERIOD).any(|period| self.repeats(reads, period, REPEATS))
    }

    /// Returns whether the last reads are this many repetitions of one series, with the same results.
    fn repeats(&self, reads: &[Id], period: usize, times: usize) -> bool {
        reads.len() >= period * times && {
            let tail = &reads[reads.len() - period * times..];
            tail[period..].iter().zip(tail).all(|(&one, &other)| {
                let (one, other) = (self.graph.event(one), self.graph.event(other));
                one.site == other.site && one.span == other.span && one.rf == other.rf
            })
        }
    }
}
