//! The doorbells of a device's notifications: one for each queue, at the queue's address in the BAR, which the guest
//! may move. Each signals the eventfd that wakes the thread that serves the queue.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OnError;
use super::layout::notify_offset;
use crate::virtio::server::Server;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Doorbell, IoEvents};

/// The doorbells, until this is dropped.
pub(super) struct Bells {
    server: Arc<dyn Server>,
    events: Arc<dyn IoEvents>,
    on_error: OnError,
    registered: Mutex<Vec<Doorbell>>,
}

impl Bells {
    /// The doorbells of those queues that have an eventfd; none is registered yet.
    pub(super) fn new(
        server: Arc<dyn Server>,
        events: Arc<dyn IoEvents>,
        on_error: OnError,
    ) -> Self {
        Self {
            server,
            events,
            on_error,
            registered: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Doorbell>> {
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the doorbells with the BAR; without a base, removes them.
    pub(super) fn moved(&self, base: Option<u64>) {
        let mut registered = self.lock();
        for mut doorbell in registered.drain(..) {
            if let Err(error) = doorbell.remove() {
                (self.on_error)(error);
            }
        }
        let Some(base) = base else { return };
        for queue in 0..self.server.device().queues {
            let Some(kick) = self.server.kick(queue) else {
                continue;
            };
            let address = IoEventAddress::Mmio(base + notify_offset(queue));
            let added = self.events.register_ioevent(
                kick,
                address,
                Datamatch::AnyLength,
                Sharing::Exclusive,
            );
            match added {
                Ok(doorbell) => registered.push(doorbell),
                // The other notifications reach the device, which rings.
                Err(error) => return (self.on_error)(error),
            }
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
