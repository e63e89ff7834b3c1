//! The doorbells of a device's notifications: one for each queue, at the queue's address in the BAR, wherever the guest
//! puts that. A thread for each queue sleeps on the doorbell's eventfd and serves the queue.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OnError;
use super::layout::notify_offset;
use crate::device::Listener;
use crate::device::virtio::{Handler, Queue};
use crate::doorbell::{Datamatch, IoEventAddress, Sharing};
use crate::eventfd::EventFd;
use crate::hypervisor::IoEvents;

/// The doorbells, until this is dropped.
pub(super) struct Bells {
    events: Arc<dyn IoEvents>,
    on_error: OnError,
    listeners: Vec<Listener>,
    /// The address of each doorbell that is registered.
    registered: Mutex<Vec<IoEventAddress>>,
}

impl Bells {
    /// Starts the threads; no doorbell is registered yet. Fails if the process cannot have more descriptors or threads.
    pub(super) fn new<D: Handler + 'static>(
        queues: impl Iterator<Item = Arc<Queue<D>>>,
        events: Arc<dyn IoEvents>,
        on_error: OnError,
    ) -> io::Result<Self> {
        let listener = |queue: Arc<Queue<D>>| {
            // What a wake-up finds is in the queue, and the count says nothing more.
            Listener::start(EventFd::new(0)?, || {}, move |_| queue.serve().more)
        };
        Ok(Self {
            events,
            on_error,
            listeners: queues.map(listener).collect::<io::Result<_>>()?,
            registered: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IoEventAddress>> {
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the doorbells with the BAR; without a base there are none.
    pub(super) fn moved(&self, base: Option<u64>) {
        let mut registered = self.lock();
        for (address, listener) in registered.drain(..).zip(&self.listeners) {
            let removed =
                self.events
                    .unregister_ioevent(listener.event(), address, Datamatch::AnyLength);
            if let Err(error) = removed {
                (self.on_error)(error);
            }
        }
        let Some(base) = base else { return };
        for (queue, listener) in (0..).zip(&self.listeners) {
            let address = IoEventAddress::Mmio(base + notify_offset(queue));
            let added = self.events.register_ioevent(
                listener.event(),
                address,
                Datamatch::AnyLength,
                Sharing::Exclusive,
            );
            if let Err(error) = added {
                // The other notifications reach the device, which rings.
                return (self.on_error)(error);
            }
            registered.push(address);
        }
    }

    /// Rings for a notification that reached the device.
    pub(super) fn ring(&self, queue: u16) {
        if let Some(listener) = self.listeners.get(usize::from(queue)) {
            // The write fails only if the count is at its limit: then a wake-up is on its way.
            let _ = listener.event().write(1);
        }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.moved(None);
    }
}

impl fmt::Debug for Bells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bells")
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}
