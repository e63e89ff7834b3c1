//! The doorbells of a guest: which are registered, and the copies of their eventfds in the sandbox. Any thread
//! registers and removes them while vCPUs run; a mutex orders the changes.

use std::sync::atomic::Ordering::Relaxed;

use vmbell::doorbell::table::TableWriter;
use vmbell::doorbell::{DoorbellError, IoEventAddress, Pattern, RegisterError, Sharing};
use vmbell::eventfd::EventId;
use vmbell::sync::Mutex;
use vmbell_hypervisor::Error;
use vmm_sys_util::eventfd::EventFd;

use super::error::UsermodeError;
use super::payloads::{descriptor_of, prepare};
use super::revocation::{Revocation, SectionBarrier, Unfinished};
use super::sandbox::Sandbox;

/// Registers and removes the doorbells of a guest.
#[derive(Debug)]
pub struct Doorbells {
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    writer: TableWriter,
    /// Doorbells that are no longer in the table, but whose eventfd the sandbox may still signal.
    unfinished: Unfinished<(EventId, IoEventAddress, Pattern), Revocation>,
}

impl Doorbells {
    /// Makes an empty set of doorbells, whose groups may have `max_items` items each.
    pub fn new(max_items: u32) -> Self {
        let changes = Changes {
            writer: TableWriter::new(max_items),
            unfinished: Unfinished::default(),
        };
        Self {
            changes: Mutex::new(changes),
        }
    }

    /// Registers a doorbell: once this returns, matching guest writes signal `event`. `payload`, if given, is the index
    /// of a stored value: the value that the guest wrote is stored there before the signal.
    pub fn register(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
        sharing: Sharing,
        payload: Option<u32>,
    ) -> Result<(), Error> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let mut changes = self.changes.lock();
        if changes.unfinished.any(|(_, other, _)| *other == address) {
            return Err(DoorbellError::Exists { address, pattern }.into());
        }
        let table = &sandbox.control.doorbells;
        let result = changes
            .writer
            .register(table, id, address, pattern, sharing, || {
                let number = sandbox
                    .descriptors
                    .add(sandbox.process(), event, &address)?;
                Ok(payload.map_or(number, |index| prepare(sandbox, index, number)))
            });
        match (result, sandbox.process().ending()) {
            (Err(RegisterError::Signal(_)), Some(ending)) => {
                Err(UsermodeError::Ended { ending }.into())
            }
            (result, _) => result.map_err(RegisterError::merge),
        }
    }

    /// Removes a doorbell: once this returns without an error, this registration no longer signals `event`. With
    /// [`Containment::Strict`](vmbell_hypervisor::Containment::Strict) this holds whatever code runs in the sandbox. A
    /// concurrent guest write is delivered as a signal or as an exit.
    ///
    /// After [`Error::Unremoved`] matching writes already leave the guest, but the doorbell still counts as registered
    /// and `event` may still be signalled, until the same removal is called again and succeeds.
    pub fn unregister(
        &self,
        sandbox: &Sandbox,
        event: &EventFd,
        address: IoEventAddress,
        pattern: Pattern,
    ) -> Result<(), Error> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let key = (id, address, pattern);
        let unfinished = self.changes.lock().unfinished.take(&key);
        let mut revocation = match unfinished {
            Some(revocation) => revocation,
            None => {
                let table = &sandbox.control.doorbells;
                let removal = self
                    .changes
                    .lock()
                    .writer
                    .unlink(table, id, address, pattern)?;
                // Without the lock: a vCPU that is slow in a lookup delays removals, but not registrations.
                let barrier = SectionBarrier::new(sandbox);
                barrier.wait();
                let number = descriptor_of(sandbox, self.changes.lock().writer.finish(removal));
                Revocation::new(number, &barrier)
            }
        };
        let attempt = revocation.finish(sandbox);
        let what = format_args!("the doorbell at {address}");
        self.changes
            .lock()
            .unfinished
            .end(key, revocation, what, attempt)
    }
}

/// Returns the light exits of all vCPUs: writes that the sandbox answered itself, by a trap or by a direct call.
pub fn light_exits(sandbox: &Sandbox) -> u64 {
    let shared = &sandbox.shared;
    let trapped: u64 = shared
        .runs
        .iter()
        .map(|run| run.counters.light.load(Relaxed))
        .fold(0, u64::wrapping_add);
    let direct = shared
        .direct_sections
        .total()
        .wrapping_sub(shared.direct_misses.load(Relaxed));
    trapped.wrapping_add(direct)
}
