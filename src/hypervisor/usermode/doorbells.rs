//! The doorbells of one guest: who is registered, and the eventfds behind them in the sandbox.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::super::Containment;
use super::error::UsermodeError;
use super::sandbox::Sandbox;
use crate::doorbell::{
    Barrier, DoorbellError, DoorbellState, EventId, IoEventAddress, Pattern, RegisterError, Sharing,
};

/// How long a removal waits for lookups under way. An honest vCPU needs microseconds, or a time
/// slice if it was preempted in the middle; a hostile one is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Registration and removal while vCPUs run.
#[derive(Debug)]
pub struct Doorbells {
    changes: Mutex<Changes>,
    containment: Containment,
}

#[derive(Debug)]
struct Changes {
    state: DoorbellState,
    /// Removals that have failed halfway and wait to be tried again.
    unfinished: Vec<Removal>,
}

/// What is left to do for a doorbell that is out of the table.
#[derive(Debug)]
struct Removal {
    id: EventId,
    address: IoEventAddress,
    pattern: Pattern,
    /// Its descriptor in the sandbox, until that is taken back.
    number: Option<u32>,
    /// Whether writes to the eventfd may be under way that the sections do not show.
    stop: bool,
}

impl Doorbells {
    /// None registered.
    pub fn new(max_items: u32, containment: Containment) -> Self {
        let changes = Changes {
            state: DoorbellState::new(max_items),
            unfinished: Vec::new(),
        };
        Self {
            changes: Mutex::new(changes),
            containment,
        }
    }

    /// From its return on, matching writes signal `event`.
    pub fn register(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
        sharing: Sharing,
    ) -> Result<(), UsermodeError> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.unfinished.iter().any(|one| one.address == address) {
            return Err(DoorbellError::Exists { address, pattern }.into());
        }
        let table = &sandbox.control.doorbells;
        let result = changes
            .state
            .register(table, id, address, pattern, sharing, || {
                sandbox.descriptors.add(event, address)
            });
        match (result, sandbox.process().ending()) {
            (Err(RegisterError::Signal(_)), Some(ending)) => Err(UsermodeError::Ended { ending }),
            (result, _) => Ok(result?),
        }
    }

    /// When it returns without an error, `event` gets no further signal from that registration,
    /// with [`Containment::Strict`] whatever runs in the sandbox. A write that raced is delivered
    /// as a signal or as an exit.
    ///
    /// After [`UsermodeError::Unremoved`] writes leave the guest already, but the registration keeps
    /// its place and `event` may be signalled, until the same removal is tried again and succeeds.
    pub fn unregister(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<(), UsermodeError> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |one: &Removal| (one.id, one.address, one.pattern) == (id, address, pattern);
        let mut removal = match changes.unfinished.iter().position(same) {
            Some(place) => changes.unfinished.swap_remove(place),
            None => {
                let barrier = SectionBarrier {
                    sandbox,
                    overdue: Cell::new(false),
                };
                let table = &sandbox.control.doorbells;
                let state = &mut changes.state;
                let number = state.unregister(table, id, address, pattern, &barrier)?;
                Removal {
                    id,
                    address,
                    pattern,
                    number: Some(number),
                    stop: self.containment == Containment::Strict || barrier.overdue.get(),
                }
            }
        };
        let finished = removal.finish(sandbox);
        // A sandbox that has ended rings no more.
        if finished.is_err() && !sandbox.process().has_ended() {
            changes.unfinished.push(removal);
            return finished;
        }
        Ok(())
    }
}

impl Removal {
    fn finish(&mut self, sandbox: &Sandbox) -> Result<(), UsermodeError> {
        let address = self.address;
        let unremoved = |source| UsermodeError::Unremoved { address, source };
        if let Some(number) = self.number {
            sandbox.descriptors.revoke(number).map_err(unremoved)?;
            self.number = None;
        }
        if self.stop {
            // Nobody can begin another write to it now; this ends those that were under way.
            sandbox.process().stop_and_go().map_err(unremoved)?;
        }
        Ok(())
    }
}

/// Waits for the lookups that may have begun before now (see [`stub::section`]).
struct SectionBarrier<'s> {
    sandbox: &'s Sandbox,
    overdue: Cell<bool>,
}

impl Barrier for SectionBarrier<'_> {
    fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        // Twice: a reader may have taken the phase's number just before it turned over.
        for _ in 0..2 {
            let phase = self.sandbox.control.phase.fetch_add(1, SeqCst);
            let mut tries = 0u32;
            while !self.drained(phase) {
                if Instant::now() > deadline || self.sandbox.process().ending().is_some() {
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

impl SectionBarrier<'_> {
    fn drained(&self, phase: u32) -> bool {
        let shared = &self.sandbox.shared;
        shared.direct.is_idle(phase) && shared.trapped.is_idle(phase)
    }
}

/// Exits that were answered in the sandbox, over all vCPUs.
pub fn light_exits(sandbox: &Sandbox) -> u64 {
    let shared = &sandbox.shared;
    let trapped: u64 = shared
        .runs
        .iter()
        .map(|run| run.counters.light.load(Relaxed))
        .fold(0, u64::wrapping_add);
    let direct = shared
        .direct
        .total()
        .wrapping_sub(shared.direct_misses.load(Relaxed));
    trapped.wrapping_add(direct)
}
