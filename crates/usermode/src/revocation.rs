//! Takes a descriptor back from the sandbox, so that the sandbox can no longer signal its eventfd. Runs on the
//! thread that removes a doorbell or an irqfd.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::progress::Backoff;
use super::sandbox::Sandbox;
use vmbell_hypervisor::Containment;

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
