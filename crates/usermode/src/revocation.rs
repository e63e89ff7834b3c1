//! Takes a descriptor back from the sandbox, so that the sandbox can no longer signal its eventfd. Runs on the thread
//! that removes a doorbell or an irqfd.
//!
//! A removal can fail halfway: the removed doorbell or irqfd does nothing any more, but the sandbox still has its
//! descriptor. Such a doorbell or resampling irqfd still counts as registered until the same removal is tried again and
//! succeeds. Any thread may try; each list of [`Unfinished`] removals is used under its owner's lock.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{fmt, io};

use vmbell_hypervisor::{Containment, Error};

use super::progress::Backoff;
use super::sandbox::Sandbox;

/// How long a removal waits for lookups that are under way before it stops the sandbox instead, which ends them. An honest
/// vCPU needs microseconds, or its next time slice if it was preempted in the middle.
const SECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A descriptor of the sandbox that is to be taken back. Lookups that begin now no longer find it.
#[derive(Debug)]
pub struct Revocation {
    /// Its number in the sandbox; `None` once it is taken back.
    number: Option<u32>,
    /// Whether the sandbox must be stopped once, because writes to the descriptor may be under way outside of
    /// read-side sections.
    stop: bool,
}

impl Revocation {
    /// The revocation of descriptor `number`, whose lookups `barrier` has waited for.
    pub fn new(number: u32, barrier: &SectionBarrier<'_>) -> Self {
        let strict = barrier.sandbox.containment == Containment::Strict;
        Self {
            number: Some(number),
            stop: strict || barrier.overdue.get(),
        }
    }

    /// Takes the descriptor back: once this returns without an error, the sandbox no longer signals its
    /// eventfd. After an error the call can be repeated.
    pub fn finish(&mut self, sandbox: &Sandbox) -> io::Result<()> {
        let finished = self.try_finish(sandbox);
        // A sandbox that has ended signals nothing.
        finished.or_else(|error| match sandbox.process().has_ended() {
            true => Ok(()),
            false => Err(error),
        })
    }

    fn try_finish(&mut self, sandbox: &Sandbox) -> io::Result<()> {
        if let Some(number) = self.number {
            sandbox.descriptors.revoke(sandbox.process(), number)?;
            self.number = None;
        }
        if self.stop {
            // No write to the eventfd can begin any more; the stop ends the writes that were under way.
            sandbox.process().stop_and_continue()?;
        }
        Ok(())
    }
}

/// Waits for the lookups that may be under way ([`stub::section`]).
pub struct SectionBarrier<'s> {
    sandbox: &'s Sandbox,
    overdue: Cell<bool>,
}

impl<'s> SectionBarrier<'s> {
    /// A barrier that has not waited yet.
    pub fn new(sandbox: &'s Sandbox) -> Self {
        let overdue = Cell::new(false);
        Self { sandbox, overdue }
    }

    fn drained(&self, phase: u32) -> bool {
        let shared = &self.sandbox.shared;
        shared.direct_sections.is_idle(phase) && shared.trap_sections.is_idle(phase)
    }

    /// Returns when every lookup that may have begun before the call has ended, its signals included, or when it is
    /// overdue.
    pub fn wait(&self) {
        let deadline = Instant::now() + SECTION_TIMEOUT;
        // Two phases: a reader may have read the number of a phase just before it changed.
        for _ in 0..2 {
            let phase = self.sandbox.control.phase.fetch_add(1, SeqCst);
            let mut backoff = Backoff::default();
            let mut spins = 0;
            while !self.drained(phase) {
                if Instant::now() > deadline || self.sandbox.process().has_ended() {
                    self.overdue.set(true);
                    return;
                }
                if spins < 64 {
                    spins += 1;
                    std::hint::spin_loop();
                } else {
                    backoff.pause();
                }
            }
        }
    }
}

/// The removals that have failed halfway: the key of each removed object, and the work that is left.
#[derive(Debug)]
pub struct Unfinished<K, R>(Vec<(K, R)>);

impl<K, R> Default for Unfinished<K, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, R> Unfinished<K, R> {
    /// Whether any unfinished removal has a key for which `is_like_this` holds.
    pub fn any(&self, is_like_this: impl Fn(&K) -> bool) -> bool {
        self.0.iter().any(|(key, _)| is_like_this(key))
    }

    /// Takes the work that is left for `key`; `None` if no removal of it has failed.
    pub fn take(&mut self, key: &K) -> Option<R> {
        let place = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Does the rest of a removal, and keeps it for the next attempt if it fails. `what` names the removed
    /// object in the error.
    pub fn finish(
        &mut self,
        key: K,
        mut rest: R,
        what: impl fmt::Display,
        finish: impl FnOnce(&mut R) -> io::Result<()>,
    ) -> Result<(), Error> {
        finish(&mut rest).map_err(|source| {
            self.0.push((key, rest));
            let what = what.to_string();
            Error::Unremoved { what, source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_that_failed_is_kept_with_what_is_left_to_do_until_it_succeeds() {
        let mut unfinished = Unfinished::default();
        let error = unfinished.finish("bell", 2, "the bell", |rest| {
            *rest -= 1;
            Err(io::ErrorKind::TimedOut.into())
        });
        let Err(Error::Unremoved { what, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(what, "the bell");
        assert!(unfinished.any(|key| *key == "bell") && unfinished.take(&"fd").is_none());
        let rest = unfinished.take(&"bell").unwrap();
        assert_eq!(rest, 1);
        let finished = unfinished.finish("bell", rest, "the bell", |_| Ok(()));
        assert!(finished.is_ok() && !unfinished.any(|_| true));
    }
}
