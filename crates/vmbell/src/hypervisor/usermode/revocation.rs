//! Taking a descriptor back from the sandbox, so that what it stood for is signalled no more.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::super::Containment;
use super::sandbox::Sandbox;
use crate::doorbell::Barrier;

/// How long a removal waits for lookups under way. An honest vCPU needs microseconds, or a time
/// slice if it was preempted in the middle; a hostile one is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// A descriptor that no lookup finds which begins from now on.
#[derive(Debug)]
pub struct Revocation {
    /// Its number in the sandbox, until that is taken back.
    number: Option<u32>,
    /// Whether writes to it may be under way that the sections do not show.
    stop: bool,
}

impl Revocation {
    /// Of a descriptor whose lookups `barrier` has waited for.
    pub fn new(number: u32, barrier: &SectionBarrier<'_>) -> Self {
        let strict = barrier.sandbox.containment == Containment::Strict;
        Self {
            number: Some(number),
            stop: strict || barrier.overdue.get(),
        }
    }

    /// Takes it back: when it returns without an error, nobody in the sandbox signals what it stood
    /// for. After an error it can be tried again.
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
            sandbox.descriptors.revoke(number)?;
            self.number = None;
        }
        if self.stop {
            // Nobody can begin another write to it now; this ends those that were under way.
            sandbox.process().stop_and_go()?;
        }
        Ok(())
    }
}

/// Waits for the lookups that may have begun before now (see [`stub::section`]).
pub struct SectionBarrier<'s> {
    sandbox: &'s Sandbox,
    overdue: Cell<bool>,
}

impl<'s> SectionBarrier<'s> {
    /// One that has not waited yet.
    pub fn new(sandbox: &'s Sandbox) -> Self {
        let overdue = Cell::new(false);
        Self { sandbox, overdue }
    }

    fn drained(&self, phase: u32) -> bool {
        let shared = &self.sandbox.shared;
        shared.direct.is_idle(phase) && shared.trapped.is_idle(phase)
    }
}

impl Barrier for SectionBarrier<'_> {
    fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        // Twice: a reader may have taken the phase's number just before it turned over.
        for _ in 0..2 {
            let phase = self.sandbox.control.phase.fetch_add(1, SeqCst);
            let mut tries = 0u32;
            while !self.drained(phase) {
                if Instant::now() > deadline || self.sandbox.process().has_ended() {
                    self.overdue.set(true);
                    return;
                }
                tries += 1;
                if tries < 64 {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }
}
