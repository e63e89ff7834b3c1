//! Doorbells for a VMM that looks guest writes up in its own process: a table, its eventfds and its readers.

use std::{collections::HashMap, io, os::fd::AsRawFd, sync::Arc};

use crate::sync::{Mutex, MutexGuard};
use vmbell_core::table::Table;
use vmm_sys_util::eventfd::EventFd;

use super::{
    DEFAULT_MAX_ITEMS, DoorbellError, IoEventAddress, Pattern, RegisterError, Sharing,
    writer::TableWriter,
};
use crate::{
    eventfd::EventId,
    quiesce::{Domain, Reader},
};

/// Doorbells of one guest, in this process.
///
/// Registration takes a lock for a moment; each vCPU thread rings through its own [`Bell`], which takes no lock.
///
/// ```
/// use vmbell::doorbell::{Datamatch, DoorbellSet, IoEventAddress, Sharing};
/// use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let notify = IoEventAddress::Mmio(0xd000_0050);
/// let queue_1 = EventFd::new(EFD_NONBLOCK)?;
/// let doorbells = DoorbellSet::new();
/// doorbells.register(&queue_1, notify, Datamatch::U32(Some(1)), Sharing::Exclusive)?;
///
/// // On a vCPU thread, for each write that left the guest:
/// let mut bell = doorbells.bell();
/// assert!(bell.ring(notify, &1_u32.to_le_bytes()));
/// assert!(!bell.ring(notify, &2_u32.to_le_bytes()), "not a doorbell: emulate it");
/// assert_eq!(queue_1.read()?, 1);
///
/// doorbells.unregister(&queue_1, notify, Datamatch::U32(Some(1)))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DoorbellSet {
    shared: Arc<DoorbellSetInner>,
}

#[derive(Debug)]
struct DoorbellSetInner {
    table: Box<Table>,
    domain: Domain,
    registrations: Mutex<Registrations>,
}

#[derive(Debug)]
struct Registrations {
    writer: TableWriter,
    /// The eventfds by signal number, which is the number of the eventfd's descriptor. The descriptor stays open as
    /// long as the table has the number.
    events: HashMap<u32, EventFd>,
}

impl DoorbellSetInner {
    fn lock(&self) -> MutexGuard<'_, Registrations> {
        self.registrations.lock()
    }
}

impl DoorbellSet {
    /// An empty set. A group takes at most [`DEFAULT_MAX_ITEMS`].
    pub fn new() -> Self {
        Self::with_max_items(DEFAULT_MAX_ITEMS)
    }

    /// An empty set. A group takes at most `max_items`.
    pub fn with_max_items(max_items: u32) -> Self {
        let registrations = Mutex::new(Registrations {
            writer: TableWriter::new(max_items),
            events: HashMap::new(),
        });
        let shared = Arc::new(DoorbellSetInner {
            table: Table::boxed(),
            domain: Domain::new(),
            registrations,
        });
        Self { shared }
    }

    /// Registers a doorbell: once this returns, each matching write signals `event`.
    ///
    /// The set keeps a duplicate, so `event` may be closed. The eventfd should be non-blocking: when its counter is at
    /// its limit, 2^64-2, a blocking eventfd blocks the vCPU.
    pub fn register(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        sharing: Sharing,
    ) -> Result<(), RegisterError<io::Error>> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let Registrations { writer, events } = &mut *self.shared.lock();
        let table = &self.shared.table;
        writer.register(table, id, address, pattern.into(), sharing, || {
            let event = event.try_clone()?;
            let number = u32::try_from(event.as_raw_fd()).map_err(io::Error::other)?;
            events.insert(number, event);
            Ok(number)
        })
    }

    /// Removes a doorbell: once this returns, that registration no longer signals `event`.
    ///
    /// A write that races with the removal is delivered once: it signals `event`, or the vCPU's thread gets it as a
    /// miss. This call waits for every thread that is signalling at the moment, even if the thread blocks on a full
    /// eventfd. Other threads can register doorbells meanwhile.
    pub fn unregister(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
    ) -> Result<(), DoorbellError> {
        let id = EventId::of(event)?;
        let DoorbellSetInner { table, domain, .. } = &*self.shared;
        let removal = {
            let writer = &mut self.shared.lock().writer;
            writer.unlink(table, id, address, pattern.into())?
        };
        // This waits without the lock: a thread that blocks on a full eventfd delays removals, but not registrations.
        domain.synchronize();
        let Registrations { writer, events } = &mut *self.shared.lock();
        events.remove(&writer.finish(removal));
        Ok(())
    }

    /// A new [`Bell`] for one thread.
    pub fn bell(&self) -> Bell {
        Bell {
            shared: Arc::clone(&self.shared),
            reader: self.shared.domain.reader(),
        }
    }
}

impl Default for DoorbellSet {
    fn default() -> Self {
        Self::new()
    }
}

/// One thread's reader of a [`DoorbellSet`].
#[derive(Debug)]
pub struct Bell {
    shared: Arc<DoorbellSetInner>,
    reader: Reader,
}

impl Bell {
    /// Signals the doorbells that match this write; returns whether any matches.
    ///
    /// `data` is what the guest wrote, little-endian. No doorbell matches an empty write or a write of more than eight
    /// bytes.
    pub fn ring(&mut self, address: IoEventAddress, data: &[u8]) -> bool {
        let mut value = [0; 8];
        let (Some(low), Ok(len)) = (value.get_mut(..data.len()), u32::try_from(data.len())) else {
            return false;
        };
        low.copy_from_slice(data);
        let value = u64::from_le_bytes(value);
        let _section = self.reader.enter();
        let table = &*self.shared.table;
        let signals = table.lookup(address.kind(), address.value(), len, value);
        signals.iter().for_each(signal);
        !signals.is_empty()
    }
}

/// Adds 1 to the counter of an eventfd; the caller ensures that the descriptor is open.
///
/// At the counter's limit, the write has no effect if the eventfd is non-blocking; otherwise it blocks the caller.
/// Unlike the kernel, a process cannot signal past the limit.
#[allow(unsafe_code)]
#[expect(clippy::cast_possible_wrap, reason = "descriptors are below 2^29")]
fn signal(fd: u32) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `one` is eight bytes on this stack, alive until the call returns; the descriptor is a clone that the
    // `DoorbellSet` closes only after this reader's section. The result is ignored: at the limit it is EAGAIN, and the
    // consumer then has a signal to take anyway.
    unsafe { libc::write(fd as i32, one.as_ptr().cast(), one.len()) };
}

// Miri has no /proc/self/fdinfo, which shows the identity of an eventfd.
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "set_test.rs"]
mod tests;
