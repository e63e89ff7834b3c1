//! The doorbells of a device's notifications: one for each queue, at the queue's address in the BAR, which the guest
//! may move. Each signals the eventfd that wakes the thread that serves the queue.
//!
//! They are registered while the driver runs the device (DRIVER_OK). A guest that looks for devices switches their decoding off
//! and on, and each removal of a doorbell waits for the vCPUs in the kernel.

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
    state: Mutex<BellsState>,
}

#[derive(Debug, Default)]
struct BellsState {
    /// Where the BAR is, if it is mapped.
    base: Option<u64>,
    is_live: bool,
    registered: Vec<Doorbell>,
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
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BellsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the doorbells with the BAR; without a base, removes them.
    pub(super) fn moved(&self, base: Option<u64>) {
        let mut state = self.lock();
        state.base = base;
        self.register(&mut state);
    }

    /// Registers the doorbells when the driver begins to run the device, and removes them when it ends.
    pub(super) fn set_live(&self, is_live: bool) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_live, is_live) != is_live {
            self.register(&mut state);
        }
    }

    /// Removes the doorbells, and registers them where they belong now.
    fn register(&self, state: &mut BellsState) {
        for mut doorbell in state.registered.drain(..) {
            if let Err(error) = doorbell.remove() {
                (self.on_error)(error);
            }
        }
        let Some(base) = state.base.filter(|_| state.is_live) else {
            return;
        };
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
                Ok(doorbell) => state.registered.push(doorbell),
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
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
