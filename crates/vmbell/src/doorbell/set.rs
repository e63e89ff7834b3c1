//! Doorbells for a VMM that handles its exits itself: a table, its eventfds and its readers.

use std::{
    collections::HashMap,
    io,
    os::fd::AsRawFd,
    sync::{Arc, Mutex, PoisonError},
};

use vmm_sys_util::eventfd::EventFd;

use super::{
    Barrier, DEFAULT_MAX_ITEMS, DoorbellError, EventId, IoEventAddress, Pattern, RegisterError,
    Sharing, doorbells::State, heap::HeapTable, signal,
};
use crate::quiesce::{Domain, Reader};

/// Doorbells of one guest, in this process.
///
/// Registration takes a lock; each vCPU thread rings through a [`Bell`] of its own, which takes
/// none.
///
/// ```
/// use vmbell::doorbell::{Datamatch, DoorbellSet, IoEventAddress, Sharing};
/// use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
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
/// assert!(!bell.ring(notify, &2_u32.to_le_bytes()), "nobody's: emulate it");
/// assert_eq!(queue_1.read()?, 1);
///
/// doorbells.unregister(&queue_1, notify, Datamatch::U32(Some(1)))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DoorbellSet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    table: HeapTable,
    domain: Domain,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    state: State,
    /// What the table's signal numbers mean: our own descriptors, open while they are in it.
    events: HashMap<u32, EventFd>,
}

impl Barrier for Domain {
    fn wait(&self) {
        self.synchronize();
    }
}

impl DoorbellSet {
    /// No doorbell yet; groups take [`DEFAULT_MAX_ITEMS`].
    pub fn new() -> Self {
        Self::with_max_items(DEFAULT_MAX_ITEMS)
    }

    /// No doorbell yet; groups take `max_items`.
    pub fn with_max_items(max_items: u32) -> Self {
        let writer = Mutex::new(Writer {
            state: State::new(max_items),
            events: HashMap::new(),
        });
        let shared = Arc::new(Shared {
            table: HeapTable::new(),
            domain: Domain::new(),
            writer,
        });
        Self { shared }
    }

    /// From its return on, a matching write signals `event`.
    ///
    /// The set keeps a duplicate, so `event` may be closed. Make it non-blocking: at the limit of
    /// its counter, 2^64-2, a blocking one holds the vCPU.
    pub fn register(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        sharing: Sharing,
    ) -> Result<(), RegisterError<io::Error>> {
        let id = EventId::of(event).map_err(DoorbellError::from)?;
        let Shared { table, writer, .. } = &*self.shared;
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Writer { state, events } = &mut *writer;
        state.register(table, id, address, pattern.into(), sharing, || {
            let event = event.try_clone()?;
            let number = u32::try_from(event.as_raw_fd()).map_err(io::Error::other)?;
            events.insert(number, event);
            Ok(number)
        })
    }

    /// When it returns, `event` gets no further signal from that registration.
    ///
    /// A write that races with it is delivered once, to `event` or to whoever handles misses; look
    /// at both.
    pub fn unregister(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
    ) -> Result<(), DoorbellError> {
        let id = EventId::of(event)?;
        let Shared {
            table,
            domain,
            writer,
        } = &*self.shared;
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Writer { state, events } = &mut *writer;
        let number = state.unregister(table, id, address, pattern.into(), domain)?;
        events.remove(&number);
        Ok(())
    }

    /// A handle for one thread that rings.
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

/// One thread's way into a [`DoorbellSet`].
#[derive(Debug)]
pub struct Bell {
    shared: Arc<Shared>,
    reader: Reader,
}

impl Bell {
    /// Signals whoever asked for this write, and says whether anybody did.
    ///
    /// `data` is what the guest wrote, in its byte order, little endian. Nobody asks for a write
    /// of nothing or of more than eight bytes.
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
        signals.iter().for_each(signal::ring);
        !signals.is_empty()
    }
}

// Miri has no /proc/self/fdinfo, where an eventfd says which it is.
#[cfg(test)]
#[cfg(not(miri))]
#[path = "set_test.rs"]
mod tests;
