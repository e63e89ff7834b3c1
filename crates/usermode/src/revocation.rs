//! Revokes a descriptor of the sandbox, so that the sandbox can no longer signal its eventfd. Runs on the thread that
//! removes a doorbell or an irqfd.
//!
//! A removal can fail halfway: the removed doorbell or irqfd has no effect any more, but the sandbox still has its
//! descriptor. Such a doorbell or resampling irqfd still counts as registered until the same removal is called again
//! and succeeds. Any thread may call it; each list of [`Unfinished`] removals is used under its owner's lock.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{fmt, io};

use vmbell::sync::Mutex;
use vmbell_hypervisor::{Containment, Error};

use super::sandbox::Sandbox;
use super::wait::Backoff;

/// How long a removal waits for lookups in progress before it stops the sandbox instead, which ends them. An honest
/// vCPU needs microseconds, or its next time slice if it was preempted during the lookup.
const SECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A descriptor of the sandbox that is to be revoked. Lookups that begin now no longer find it.
#[derive(Debug)]
pub struct Revocation {
    /// The descriptor's number in the sandbox; `None` once it is revoked.
    number: Option<u32>,
    /// Whether the sandbox must be stopped once, because writes to the descriptor may be in progress outside read-side
    /// sections.
    stop: bool,
}

impl Revocation {
    /// Makes the revocation of descriptor `number`, after `barrier` has waited for its lookups.
    pub fn new(number: u32, barrier: &SectionBarrier<'_>) -> Self {
        let strict = barrier.sandbox.containment == Containment::Strict;
        Self {
            number: Some(number),
            stop: strict || barrier.overdue.get(),
        }
    }

    /// Revokes the descriptor: once this returns without an error, the sandbox no longer signals its eventfd. After an
    /// error the call can be repeated.
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
            // No write to the eventfd can begin any more; the stop ends the writes in progress.
            sandbox.process().stop_and_continue()?;
        }
        Ok(())
    }
}

/// Waits for the lookups that may be in progress ([`stub::section`]).
pub struct SectionBarrier<'s> {
    sandbox: &'s Sandbox,
    overdue: Cell<bool>,
}

impl<'s> SectionBarrier<'s> {
    /// Makes a barrier that has not waited yet.
    pub fn new(sandbox: &'s Sandbox) -> Self {
        let overdue = Cell::new(false);
        Self { sandbox, overdue }
    }

    fn drained(&self, phase: u32) -> bool {
        let shared = &self.sandbox.shared;
        shared.direct_sections.is_idle(phase) && shared.trap_sections.is_idle(phase)
    }

    /// Returns when every lookup that may have begun before the call has ended, including its signals, or when the time
    /// limit is reached.
    pub fn wait(&self) {
        let Sandbox {
            control, removals, ..
        } = self.sandbox;
        let mut deadline = None;
        let drained = |phase| {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + SECTION_TIMEOUT);
            let mut backoff = Backoff::default();
            let mut spins = 0;
            while !self.drained(phase) {
                if Instant::now() > deadline || self.sandbox.process().has_ended() {
                    return false;
                }
                if spins < 64 {
                    spins += 1;
                    std::hint::spin_loop();
                } else {
                    backoff.pause();
                }
            }
            true
        };
        self.overdue
            .set(!both_phases(removals, &control.phase, drained));
    }
}

/// Begins two phases in turn, and each time waits with `drained` for the end of the previous phase: a reader may have
/// read the phase number just before it changed. Returns false as soon as `drained` does.
///
/// Only one thread at a time: two threads could begin alternate phases, and each would wait for the same half of the
/// readers twice.
fn both_phases(turn: &Mutex<()>, phase: &AtomicU32, mut drained: impl FnMut(u32) -> bool) -> bool {
    let _turn = turn.lock();
    (0..2).all(|_| drained(phase.fetch_add(1, SeqCst)))
}

/// The removals that have failed halfway: the key of each removed object, and the remaining work.
#[derive(Debug)]
pub struct Unfinished<K, R>(Vec<(K, R)>);

impl<K, R> Default for Unfinished<K, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, R> Unfinished<K, R> {
    /// Returns whether any unfinished removal has a key for which `is_like_this` returns true.
    pub fn any(&self, is_like_this: impl Fn(&K) -> bool) -> bool {
        self.0.iter().any(|(key, _)| is_like_this(key))
    }

    /// Takes the remaining work for `key`; `None` if it has no unfinished removal.
    pub fn take(&mut self, key: &K) -> Option<R> {
        let place = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Ends an attempt to complete a removal. If the attempt failed, keeps the removal for the next attempt. `what`
    /// names the removed object in the error.
    pub fn end(
        &mut self,
        key: K,
        rest: R,
        what: impl fmt::Display,
        attempt: io::Result<()>,
    ) -> Result<(), Error> {
        attempt.map_err(|source| {
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
        let failed = Err(io::ErrorKind::TimedOut.into());
        let error = unfinished.end("bell", 1, "the bell", failed);
        let Err(Error::Unremoved { what, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(what, "the bell");
        assert!(unfinished.any(|key| *key == "bell") && unfinished.take(&"fd").is_none());
        let rest = unfinished.take(&"bell").unwrap();
        assert_eq!(rest, 1);
        let finished = unfinished.end("bell", rest, "the bell", Ok(()));
        assert!(finished.is_ok() && !unfinished.any(|_| true));
    }

    #[test]
    fn removals_at_the_same_time_wait_for_the_readers_of_both_phases() {
        let (turn, phase) = (Mutex::new(()), AtomicU32::new(0));
        let waits_for_both = || {
            let mut waited = Vec::new();
            let drained = |number: u32| {
                waited.push(number & 1);
                // Now the other thread may begin a phase, unless the lock prevents it.
                for _ in 0..10_000 {
                    if phase.load(SeqCst) != number.wrapping_add(1) {
                        break;
                    }
                    std::thread::yield_now();
                }
                true
            };
            assert!(both_phases(&turn, &phase, drained));
            waited[0] != waited[1]
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(waits_for_both);
            [waits_for_both(), other.join().unwrap()]
        });
        assert_eq!(both, [true; 2]);
    }
}
